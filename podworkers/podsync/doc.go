// Package podsync is the reference [podworkers.PodSyncer]: the transaction script of one
// pod, from its first container to its last status. [New] ties it to the parts it works
// with through small interfaces, which the other packages of the module implement:
//
//	                       ┌──► Pods, Content   runtime/pods ──► Calls ──► runtime
//	podworkers ──► Syncer ─┼──► Reader          pleg ◄── Report ───┘
//	                       ├──► Statuses        status
//	                       └──► Prober          probe
//
// Everything but Pods, Reader and Statuses is optional. The example composes a node agent
// of these packages without an Engine.
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
//	no network? ─────────► event ───────────────────────► error, unless on the host network
//	wait until nothing of an earlier life is being removed
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
//	Pods.KillPod ──► something runs, or may because it is not listed? ──► error
//	stop all probes
//	publish how the containers ended
//
// SyncTerminatedPod releases the pod. Steps above the line are done once, the others
// again if the call is repeated:
//
//	publish the last status ──► tear down volumes ──► the status is final
//	──────────────────────────────────────────────────────────────────────
//	remove the containers, if Removable ──► cgroup ──► resources ──► forget
//
// SyncTerminatingRuntimePod stops a pod that is known only from the runtime, and gives back
// its cgroup and resources. It publishes nothing.
//
// # What it makes up for
//
// Runtimes list an object later than they made it, or drop what they start when the caller
// goes away. [Calls], which stands between package runtime/pods and the runtime, and the
// files abortedstart.go and unlisted.go see to it that neither fails a pod or starts a
// container twice. lostends.go does so for records of containers that were removed.
//
// # Concurrency
//
// A Syncer starts no goroutine. It calls the parts on the goroutine of the step: one step
// at a time for one pod, the steps of different pods in parallel. Methods that take a context
// may block until it ends, the others must not. Pods, views and statuses are shared: the
// parts must not modify them and may keep them. A call whose step is repeated is repeated too
// and must lead to the same.
//
// # What it is not
//
// It holds no truth: the runtime knows what runs, the status manager what was published.
// It remembers only which pods are being stopped, whose status is final, when deadlines come
// and which objects are not listed yet; all of it may be lost. It does not decide when a
// step is due: that is package podworkers.
package podsync
