// Package podworkers runs the life of every pod on a node: one record per pod UID
// that decides when a pod may be set up, has to stop, and is gone. You hand it
// desired pods ([Workers.UpdatePod]) and a [PodSyncer] that does the work. It calls
// the syncer at most once at a time per pod, in the right phase, and again after
// errors. It is also the authority on what the rest of an agent may clean up.
//
// It is the kubelet's pod worker as a library: the same states, the same predicates
// and the same contract for the four syncer methods, without the kubelet's known
// defects. It is useful on its own, with your own syncer. It knows nothing about
// containers, images, statuses, probes or volumes, has no API client, and does not
// decide which pods should exist.
//
//	 your sources                                     your PodSyncer
//	create, update ──► UpdatePod ─┐              ┌──► SyncPod
//	kill, evict    ──► KillPod ───┤   records    ├──► SyncTerminatingPod
//	housekeeping ──► SyncKnownPods┼──► one per ──┼──► SyncTerminatingRuntimePod
//	                              │     UID      └──► SyncTerminatedPod
//	cleanup asks ◄── predicates ──┘       ▲                  │
//	operators    ◄── Explain, Snapshot    │ view newer than  │ Refresh
//	                                      └── StatusSource ◄─┘ the last call
//
// # The life of a pod
//
//	             create, update                 terminal, delete, kill,
//	                  │                         evict, not desired
//	                  ▼          SyncPod               │
//	(unknown) ──► queued ─────► setup ◄─┐ every        ▼
//	                  │           │     │ 60-90 s   termination requested
//	                  │           └─────┘              │ cancels the setup call
//	  not desired and │                                ▼ SyncTerminatingPod
//	  never started   │                           terminating ◄─┐ until it
//	                  │                                │   └────┘ succeeds
//	                  │                                ▼ SyncTerminatedPod
//	                  │                           terminated ◄─┐ until it
//	                  │                                │  └────┘ succeeds
//	                  ▼       SyncKnownPods            ▼
//	(unknown) ◄───────┴────────────────────────── finished
//
// States never go back. A pod that was told to stop never gets SyncPod again. To run again, its
// UID needs a new life, which begins once the old record is forgotten and the removal of
// the old life's leftovers has ended ([Workers.Hold]). A pod known only from the runtime goes
// from terminating straight to unknown. Only the latest update counts: a newer one replaces
// one that has not been handled yet. What updates request is never lost: termination,
// eviction, deletion and the shortest grace period are latched.
//
// Static pods (annotation kubernetes.io/config.source other than "api") with the same
// name and namespace exclude each other: a second one waits until the first is
// finished and no container of another UID with that name runs.
//
// # Who calls what
//
// [Workers.Run] makes the calls; it blocks, and returns only when every call and
// goroutine has ended. Everything else may be called from any goroutine at any time,
// even from inside a syncer call, and returns at once, except [Workers.Stop],
// [Workers.KillPod] and [Workers.WaitFinished], which wait. Updates given before Run are kept until it runs. One
// housekeeping goroutine should call [Workers.SyncKnownPods] about every two seconds,
// once all sources have delivered.
//
// Pods, mirror pods and runtime pods given to the workers are shared with the
// syncer: do not modify them afterwards.
//
// # What a syncer can rely on
//
//   - One call at a time per UID; calls of different UIDs run in parallel,
//     without a limit. A call that hangs delays no other pod.
//   - The view it gets is newer than the end of its previous call for that pod, so
//     it never acts on a view that does not show its own work.
//   - Its context ends when the call is superseded, and [context.Cause] says why:
//     [CauseTerminating], [CauseGraceShrunk], [CauseOrphaned], [CauseStopping],
//     [CauseDeadline]. It ends for no other reason, in particular not with the context
//     of the caller of UpdatePod.
//   - An error is retried: setup after 1 s doubling to 5 minutes, terminating and
//     terminated after 1 s doubling to 10 s, each plus up to half. A new update is
//     handled at once regardless.
//   - A panic counts as an error of that one pod.
//
// [PodSyncer] says what the syncer has to do in return.
//
// # Stopping
//
// When Run's context ends, the workers detach: containers keep running, as they should
// when an agent restarts. [Workers.Stop] with [Terminate] stops all pods first, if it is
// called before that context ends, and is an error afterwards. Either way a KillPod that
// still waits ends with [ErrStopped].
//
// # Looking inside
//
// [Workers.Explain] returns where a pod stands, what it waits for, the last error, the
// next wake-up and the last 50 transitions; [Workers.Snapshot] explains all pods.
// [Options.Meter] gets the kubelet's worker metrics under the kubelet's names, and
// calls in flight, back-off, cancels by cause, panics and time in each state under
// podwright_pod_worker_….
//
// # What makes it fast
//
// The kubelet has a goroutine, a channel and about 5 kB per pod. Here an idle pod is
// one record of about 300 bytes and an entry in one timer heap:
//
//   - No goroutine waits for a pod. A goroutine starts with a call and continues with
//     the next call that is ready, so that a burst of quick calls needs few of them.
//     If calls hang, more goroutines start: no call waits for another one to end.
//   - All decisions are in a pure machine (internal/machine) behind one mutex,
//     held for a fraction of a microsecond. Calls, views, events, metrics and
//     cancellations happen outside of it.
//   - Queues and the timer heap are linked through the records: making ready,
//     scheduling and cancelling allocate nothing. A call costs one allocation
//     and its context, which has no parent to register with because the workers cancel
//     calls themselves.
//   - A record keeps flags instead of times, rare parts behind a pointer, and its
//     history in 8 bytes per entry.
//   - SyncKnownPods touches each desired pod once, and looks for orphans only if
//     there are more records than desired pods.
//
// Figures are in docs/benchmarks. The rules in brackets (U13, W6, ...) are those of
// docs/spec/podworkers.md; testdata has a scenario file for every edge case.
package podworkers
