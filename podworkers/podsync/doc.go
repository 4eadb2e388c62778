// Package podsync is the reference [podworkers.PodSyncer]: the transaction script of one
// pod, from its first container to its last status. [New] connects it to the parts it works
// with through small interfaces, which other packages of the module implement:
//
//	                       ┌──► Pods, Content   runtime/pods ──► Calls ──► runtime
//	podworkers ──► Syncer ─┼──► Reader          pleg ◄── Report ───┘
//	                       ├──► Statuses        status
//	                       └──► Prober          probe
//
// Everything but Pods, Reader and Statuses is optional. The example composes a node agent
// from these packages without an Engine.
//
// # The script
//
// SyncPod makes the containers match the spec, as far as possible now:
//
//	earlier life left? ──► remove it                                    earlierlife.go
//	ask the handlers
//	publish the status ──► ended? ──────────────────────► Terminal
//	deadline passed? ────► publish Failed ──────────────► Terminal      deadline.go
//	static pod? ─────────► want a mirror pod
//	handlers refused? ───► stop, publish Blocked ───────► again in 10 s admission.go
//	gate closed? ────────► nothing runs? ───────────────► error         gate.go
//	no network? ─────────► event ───────────────────────► error, unless on the host network
//	grant resources ─────► publish what was decided
//	start probing
//	all objects listed? ─► no ──────────────────────────► error         unlisted.go
//	Pods.SyncPod ◄──┐                                                   lostends.go
//	read the pod ───┘ again after a reset, 3 times at most
//	setup refused? ──────► publish Failed ──────────────► Terminal      admission.go
//	publish the status ──► ended? ──────────────────────► Terminal
//
// SyncTerminatingPod stops the containers:
//
//	forget deadline and mirror, publish the status, stop liveness and startup probes
//	Pods.KillPod ──► something runs, or may still show up? ──► error
//	stop all probes
//	publish how the containers ended
//
// SyncTerminatedPod releases the pod. Once the status is final, a repeated call skips the steps
// above the line:
//
//	publish the last status ──► tear down volumes ──► the status is final
//	──────────────────────────────────────────────────────────────────────
//	remove the containers, if Removable ──► cgroup ──► resources ──► forget
//
// SyncTerminatingRuntimePod stops a pod that is known only from the runtime, and releases
// its cgroup and resources. It publishes nothing.
//
// # What it compensates for
//
// A runtime may list an object only some time after making it, or abandon a start when the
// caller goes away. [Calls], which sits between package runtime/pods and the runtime, and the
// files abortedstart.go and unlisted.go ensure that neither fails a pod or starts a container
// twice. lostends.go does the same when the records of containers were removed.
//
// # Concurrency
//
// A Syncer starts no goroutine. It calls the parts on the goroutine of the step: one step
// at a time for one pod, the steps of different pods in parallel. Methods that take a context
// may block until it ends; the others must not block. Pods, views and statuses are shared: the
// parts may keep them but must not modify them. When a step is repeated, its calls are repeated
// too, and must have the same outcome.
//
// # What it is not
//
// It is not a source of truth: the runtime knows what runs, the status manager what was
// published. It remembers only which pods are being stopped, which statuses are final, when
// deadlines expire and which objects are not listed yet; all of it may be lost. It does not
// decide when a step is due: package podworkers does.
package podsync
