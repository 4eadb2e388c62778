// Package syncloop turns what sources desire into work for the pods' workers.
//
//	Source "file"    ──SET──┐                       ┌── runtime events
//	Source "channel" ──SET──┤  diff   operations    │     (pods to look at)
//	Source …         ──SET──┴─► mux ──────────────► Loop ───► Dispatcher (workers)
//	                                                │  │
//	                                     Store ◄────┘  └────► Housekeeper
//	                          (desired pods by UID and name)   (own goroutine, fence)
//
// A [Source] delivers the full set of pods it wants, again and again; the mux
// compares each set with the last one and emits the difference as a totally
// ordered stream of operations (ADD, UPDATE, DELETE, REMOVE, RECONCILE). The
// [Loop] takes operations and runtime events one at a time, keeps the [Store]
// of desired pods and hands [Work] to the dispatch function of [New]. Nothing in the loop
// waits for a pod: slow work happens behind the dispatcher.
//
// # What holds
//
//   - A source that fails, dies or never delivers removes nothing; pods
//     disappear only because their source delivered a set without them
//     (SRC2, SRC4, SI4).
//   - A source that cannot name all pods it wants says so ([Undecided]), and
//     pods that no source has named then do not count as unwanted ([Loop.Undecided]).
//   - Until every source has delivered once and the loop has consumed it,
//     no removal is executed and no housekeeping runs (section 6), except for a UID that
//     has passed to a pod of another name. A removal
//     that was delayed is executed the moment the last source is ready (B7).
//   - One full name and one UID belong to one source at a time. The source with
//     the higher [Precedence] gets the name (M4), the one that had it first keeps the
//     UID (PS6); the loser is reported, and takes over when the winner is removed.
//   - While the gate is closed only setup waits; kills, removals and updates of
//     terminating pods are dispatched (B2).
//   - A panic in the dispatcher harms only the pod it was called for, which is
//     dispatched again later; the loop continues (B9).
//
// Pods in operations, in the store and in [Work] are shared: treat them and
// everything they point to as read-only.
//
// # What it is not
//
// The package starts no containers, keeps no statuses, and does not know why a
// worker should sync again later: resync and back-off belong to the workers.
// Rules are numbered as in docs/spec/syncloop.md.
package syncloop
