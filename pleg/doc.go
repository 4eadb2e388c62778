// Package pleg reads a container runtime, keeps one status per pod, and reports which pods changed.
// It is the only reader of the runtime in an engine: pod lifecycle event generation (the name is
// the kubelet's) and status cache.
//
//	          every period                    changed pods only
//	runtime ──2 list calls──► fingerprints ──► inspect (bounded, timed) ──► cache ──► Get, GetNewerThan
//	   ▲                         ▲                                           │
//	   │ Refresh: this pod only  │                                           └──► Subscription (one set per consumer)
//	   └── worker, event stream ─┘
//
// # What it promises
//
// The truth is what the runtime lists now. Everything else (events of a stream, a request for a
// refresh) only decides when to look, so a lost, doubled or reordered hint changes latency, never
// the outcome.
//
// Observations are ordered by [runtime.Stamp], never by a clock. A status that
// [Generator.GetNewerThan] returns for a stamp was read, or was seen unchanged, after that stamp
// was drawn. The status a subscriber reads after an event is at least as new as the event.
//
// An unchanged pod costs no runtime call, no allocation and no goroutine. A changed pod costs one
// inspection, whatever changed in it. Inspections run in parallel up to a bound, which does not
// count those that get no answer; one that fails, hangs or panics harms only its pod.
//
// # Two ways to drive it
//
// [Generator.Run] relists, carries out refreshes and watches the event stream until its
// context ends. Without it, [Generator.Relist] and [Generator.ReadNow] do one
// step each in the caller's goroutine, for tests and simulations.
//
// A worker that changes a pod wraps its calls in Hold and Release, draws a [Generator.Stamp] when
// they are done, calls Refresh, and waits with GetNewerThan: on a runtime that answers at once this
// takes microseconds, not a relist period. A worker that reports with Made and Removed what its
// calls did reads the pod with ReadObjects instead, which needs no list.
//
// # When the runtime misbehaves
//
// A list that fails changes nothing. A reading that fails is repeated with each relist; waiters get
// its error. A reading that runs out of time is repeated with back-off; the pod keeps its status
// and its waiters keep waiting. A call that ignores its context is written off after a while and
// counted; a pod with two of these is read again only when one returns. Other pods are not
// affected. [Generator.Health] names the pods. Only lists set its Err.
//
// # What it is not
//
// The package knows nothing of pod specs and makes no decisions about pods. A container that is
// created, dies and is removed between two lists is never seen: dead containers are the only trace
// of such a run, so the code that removes them must keep the newest one of each name.
//
// # Deliberate differences from the kubelet
//
// Waiting obeys the caller's context. Delivery is a set per subscriber instead of a bounded
// channel, so nothing is ever dropped. A relist says nothing new about a pod whose inspection is
// outstanding, and that pod does not hold up the others. A pod that had something running and
// vanishes as a whole is believed gone only after further lists agree ([Options].ConfirmVanished)
// and its objects are not found by their IDs: runtimes show empty lists for a while after a
// restart. What records know ([Generator.Recall]) completes the first list. Inspections do not hold
// up the next relist, and refreshes do not wait for one. There are no watch conditions (R13 of v1.32).
// Splitting a list into parts (B8) is up to the runtime's client; see package runtime/cri. The
// rules are in docs/spec/pleg.md; comments cite them by their ids.
package pleg
