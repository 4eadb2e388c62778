// Package latency measures the time from the exit of a container to the engine's next call for its
// pod, with one histogram per edge:
//
//	exit ──seen──► reading ──refreshed──► loop ──worker──► SyncPod ──call──► runtime
//
// No edge contains a poll, except that without an event stream the first one includes the wait for
// the next relist. Only exits that are followed by a sync are measured; a pod that changes again on
// the way is measured from the newest change.
package latency
