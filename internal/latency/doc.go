// Package latency measures the way from the exit of a container to the engine's next call
// for its pod, one histogram per edge:
//
//	exit ──seen──► reading ──refreshed──► loop ──worker──► SyncPod ──call──► runtime
//
// No edge contains a poll, unless the runtime has no event stream: then the first
// one holds the wait for the next relist. Only exits that a sync follows are measured; a
// pod that changes again on its way is measured from the newest change.
package latency
