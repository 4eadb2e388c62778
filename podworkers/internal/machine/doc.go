// Package machine is the pure part of package podworkers: the records of all
// pods and the one function that changes them.
//
//	Apply(event, now, rand, effects) -> effects
//
// It has no goroutine, clock, lock, I/O or map-order dependence. Time comes in as
// the time since some epoch and must not go backwards; randomness comes in as a
// function. The same events with the same times and random numbers give the same
// effects. The caller (podworkers' shell, a test, an explorer) carries the
// effects out.
//
//	UpdatePod, SyncKnown,      ┌─────────┐   StartCall, CancelCall,
//	Take/Dispatch, Observed, ──► records ├──► CloseCompletion, Schedule,
//	Stale, ViewReady, Done,    └─────────┘   Refresh, Observe, Warn, Metric,
//	Tick, Run, Stop                          Forget, Drained
//
// A round of a pod goes through these steps; the words in brackets are the events
// that make it go on:
//
//	idle ─► ready ─► calling ────────────► idle or ready   [Done]
//	          ▲  ▲      │ Stale: no view newer than the last call
//	          │  │      ▼
//	          │  └── viewing                               [ViewReady, Done]
//	          └─ observing                                 [Observed]
//
// A ready record waits for a dispatch, which the shell makes at once; a record that waits
// holds nothing that another one needs (L4).
// Rule ids in comments (U3, W6, C5, ...) are those of docs/spec/podworkers.md.
package machine
