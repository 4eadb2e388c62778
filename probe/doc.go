// Package probe runs the startup, liveness and readiness probes of containers, and reports their
// results.
//
//	AddPod, Observed ──► workers ──► heap of due times ──► lanes (64 network, 16 exec)
//	RemovePod              ▲  │       (one goroutine)         │
//	                       │  └─ Tick ◄── Pods (status)       ▼
//	Memory ◄──────────── Judge ◄──────────────────── exec, http, tcp, grpc, yours
//	                       │
//	                       └──► results ──► OnResult (latest per container)
//	                               └──────► Result, Status, Explain
//
// # Deciding
//
// Whether a probe runs, and what its result means, are functions over values in internal/decide:
// the rows of spec/probe.md 3, the thresholds of 4, and what holds after a restart of the engine
// (8). The [Manager] around them owns the lock, the heap and the goroutines.
//
// # Cost
//
// A probe that waits has no goroutine and no timer: one goroutine looks at what is due. Only probes
// that are running have goroutines, bounded by the slots of their lane and of their pod. Time spent
// waiting for a slot is measured, and does not count against the container.
//
// # Time
//
// A worker looks at its pod when a status of the pod has been generated ([Manager.Observed]), and
// at the points of its grid. So the first run of a probe comes as soon as its initial delay is over
// and what it waits for has happened, not up to one period later.
//
// # What it is not
//
// The package kills nothing and sets no status. The reconciler asks for [Manager.Result] and the
// status generator for [Manager.Status]; OnResult is only a hint to look.
package probe
