// Package status tells the truth about pods: it turns what the runtime shows into a v1.PodStatus,
// keeps the newest status of each pod, and hands every change to the sinks, once and in order.
//
//	v1.Pod ─────────┐
//	runtime view ───┤               SetPodStatus      ┌─► sender ─► StatusSink (channel)
//	old status ─────┼─► Generate ──────────────► Manager ─► sender ─► StatusSink (JSON lines)
//	start failures ─┤   (pure)    readiness,    (cache) └─► sender ─► StatusSink (an API)
//	probe facts ────┘             TerminatePod     │
//	                                               └─► Get, Changes
//
// # Generation
//
// [Generate] is a pure function over values: phase (spec/status.md 2), container statuses (3),
// started and ready (4), conditions with their transition times (5), addresses, QoS, start time and
// generation (6). It reads no clock, makes no calls and changes none of its arguments; the same
// input in any order gives the same bytes.
//
// # Manager
//
// [Manager] holds one status per pod UID. An update goes through fixed steps: legality of container
// transitions, transition times, start time, generation, normal form, comparison with the cached
// status (7.2-7.5). A new version is made only if there is a difference, and only new versions are
// ever sent. Calls never wait for a sink.
//
// Once in the cache, a status is never modified: lookups, watchers and sinks share it and must
// treat it as read-only.
//
// # Sending
//
// Each sink has its own sender, so a slow, failing or hanging sink delays neither the others nor
// the callers. For one pod and one sink at most one send is in flight, versions arrive in order,
// and versions that pile up meanwhile collapse into the newest. A failed send is repeated after
// 1 s, 2 s, … 30 s with jitter. A terminal phase is held back while a container of the pod could
// still run, and Ready is never True together with a terminal phase (8.4, 8.5). An idle pod has no
// goroutine, no timer and no periodic work.
//
// # Restarts
//
// A [Journal] receives every change and acknowledgement, and holds a terminal phase back until it
// would survive a crash, for a minute at most (9.11). [Manager.Restore] brings back what the
// journal kept: lookups find it at once (9.12), what no sink acknowledged is sent at once (9.9),
// and [Manager.Adopt] merges what the pod's source says (9.6). Package status/checkpoint keeps it
// on disk.
//
// # Differences from the kubelet
//
// Beyond what spec/status.md marks as FIX or LIB:
//
//   - started and ready are set before the phase, not after, so the phase
//     never lags one step behind a sidecar (1.1).
//   - The end of a run stays in lastState when the runtime removes its record,
//     and a container without any record keeps the ID of its last run (3.2, 3.3).
//   - An Unknown record of a run whose end is known keeps that end (3.3).
//   - A container that stopped for good shows its end and no back-off, even if the
//     pod has no deletionTimestamp because no API knows it (3.4, 3.6).
//   - A restart of all containers ends when no record of the old runs is left,
//     whether or not the state was read in between (5.9).
//   - Addresses of the node stay when they are not known for a while (6.2).
//   - The manager refuses to leave a terminal phase, not only the generator (2.4).
//   - There is no pass over all pods every 10 s: whatever has to be looked at again
//     has its own time, and changes at the API come in through
//     [Manager.ObservePod] (8.1).
//   - A pod recreated under its name makes a sink drop the status, not the
//     manager: other sinks may still want it (8.3).
//
// # What it is not
//
// The package makes no runtime call, reads no termination message file and runs
// no probe; all that comes in as values. It does not decide when a pod is
// terminated: the caller says so with Input.Terminal and [Manager.TerminatePod].
package status
