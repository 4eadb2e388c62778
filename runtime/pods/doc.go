// Package pods turns one pod's desired state into calls on a container runtime:
// sandbox, images, init containers, sidecars, app containers, hooks, stop and
// removal.
//
//	v1.Pod ────────────┐
//	runtime.PodStatus ─┼─► computeActions ──► plan ──► SyncPod ──► RuntimeService
//	probe results ─────┘       (pure)                     │        ImageService
//	                                                      ▼
//	                            Result: actions with reasons, next back-off end
//
// A [Manager] holds no truth. Whatever must survive the process is written on
// the sandboxes and containers as labels and annotations and read back from
// there. A restarted engine thus continues where the old one stopped, and a pod whose
// manifest is gone is still stopped as its manifest said (spec/runtime.md 2).
// In memory the manager keeps only what may be lost: crash-loop delays (rebuilt from
// restart counts), image pull delays and the latest start failures.
//
// # What it is not
//
// It does not decide when a pod is synced (package podworkers does), does not watch
// the runtime (package pleg does), writes no pod status, runs no probe and talks to
// no API server.
//
// Not supported yet: emptyDir in huge pages. A pod that needs one waits with a clear
// reason. Credential plugins are the caller's to supply, as
// [ImagePullOptions].Credentials.
//
// # Logs and dead containers
//
// A [LogRotator] bounds the logs of running containers. When a container dies, a
// [Reaper] removes the older dead containers of its pod; [Manager.GarbageCollect]
// removes the rest. A container may have its own log folder mounted, so links in it
// are not followed.
//
// # Resources
//
// With [Options.Cgroups] each pod has a cgroup of its own, made before its sandbox.
// With [Options.Allocations] CPU and memory change while a pod runs:
//
//	spec ──Allocate──► allocated pod ──SyncPod──► UpdateContainerResources, or a restart
//	        │  (stored)                    │ (stored)
//	        └─ PodResizePending            └─ PodResizeInProgress
//
// The caller then gives the manager pods as they were allocated, and retries deferred
// resizes with [Allocations.Retry].
//
// # Volumes
//
// The volumes that containers use are made before the sandbox and before every
// start: by the caller's [VolumeManager] if it handles them, otherwise by the engine
// (emptyDir, hostPath, image, configMap, secret, downwardAPI, projected). Containers
// wait only for the volumes that they use. Every sync brings the files of config maps
// and secrets up to date. [Manager.TearDownVolumes] undoes all of it after the
// containers have stopped; a restarted engine finds volumes on disk and in the mount
// table.
//
// A sub-path is opened inside its volume and held by a bind mount until the container
// has started, so that it cannot be swapped in between. Sub-paths and volumes in
// memory need root; without it, pods that ask for them wait.
//
// # Images and objects
//
// An image that was pulled with a pod's secret is used only by pods that have that
// secret or an equal one; other pods pull it separately. Files below RootDir record
// this. [Manager.Pulling] returns what a pod waits for.
// Config maps and secrets come from the caller's [ObjectGetter]. The content of a
// secret never appears in an event, error, waiting message or log, even where a
// runtime quotes an argument or a path that was made with it.
//
// # Intended differences from the kubelet
//
// Besides what spec/runtime.md marks as FIX and LIB:
//
//   - A new sandbox does not start a container that has ended for good, whichever
//     rule says so; the kubelet only considers OnFailure with exit code 0.
//   - If the record of an init container cannot be removed, the sync ends before the
//     new sandbox: with the record, init would look done.
//   - The minimum time to stop (2 s) counts from the first stop signal: a kill whose
//     grace shrinks is not raised to it again.
//   - PostStart hooks of the kinds exec and httpGet have a time limit.
//   - A preStop hook that has run, or used up its grace, does not run again, however often the kill
//     is repeated. One that was cut off together with its kill runs again (15.3).
//   - A dead sandbox is stopped again only to make room for a new one.
//   - A container that was created and never started is removed before the next
//     one of its name is created.
//   - If the outcome of a creation is unknown, the manager looks at what exists. If
//     the name stays taken, it moves on to the next number.
//   - Waiting for a pull slot has no queue limit. Containers that want the same
//     image with the same credentials share one pull, which ends with the last of
//     them. A pod with other credentials pulls separately.
//   - A pull with a pod's secret leaves a note until its end is known. If a crash
//     interrupts the pull, no pod may use the image until it is pulled again. An
//     anonymous pull makes no note.
//   - An image name that is an absolute path goes to the runtime unchanged.
//
// # Concurrency
//
// Different pods are synced concurrently without a common lock; no lock is held
// during a call. The caller serialises [Manager.SyncPod] per pod. Only
// [Manager.KillPod] may be called again while an earlier kill of the same pod is
// still in flight: a shorter grace period then takes effect at once
// (spec/runtime.md 16.6). Every runtime call gets the caller's context, and every
// goroutine a method starts has ended when the method returns, except calls about files that hang
// ([Manager.Leave]).
package pods
