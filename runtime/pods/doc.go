// Package pods turns one pod's desired state into calls on a container runtime:
// sandbox, images, init containers, sidecars, app containers, hooks, stop and
// removal.
//
//	v1.Pod ────────────┐
//	runtime.PodStatus ─┼─► computeActions ──► plan ──► SyncPod ──► RuntimeService
//	probe results ─────┘       (pure)                     │        ImageService
//	                                                      ▼
//	                            Result: starts with reasons, errors, next back-off end
//
// A [Manager] holds no truth. Whatever must survive the process is written on
// the sandboxes and containers as labels and annotations and read back from
// there, so a restarted engine goes on where the old one stopped and a pod whose
// manifest is gone can still be stopped as it asked to be (spec/runtime.md 2).
// In memory it keeps only what may be lost: crash-loop delays (rebuilt from
// restart counts), image pull delays and the latest start failures.
//
// # What it is not
//
// It does not decide when a pod is looked at (that is package podworkers), does
// not watch the runtime (package pleg), writes no pod status, runs no probe and
// talks to no API server.
//
// Not here yet: credential plugins and service account tokens for pulls; emptyDir in
// huge pages. A pod that needs a volume of these waits with a clear reason; the rest is
// left at the runtime's defaults.
//
// # Logs and the dead
//
// A [LogRotator] bounds the logs of running containers, a [Reaper] removes the
// older dead containers of a pod right after a death, and
// [Manager.GarbageCollect] whatever else may go. A container can have its own log
// folder mounted: no link in it is followed.
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
// The caller then gives the manager pods as they were allocated, and tries what was
// deferred again with [Allocations.Retry].
//
// # Volumes
//
// The volumes that containers use are made before the sandbox and before every
// start, by the caller's [VolumeManager] if it handles them, else by the engine:
// emptyDir, hostPath, image, configMap, secret, downwardAPI, projected. One that
// cannot be made keeps only the containers waiting that use it. Files of config maps and
// secrets follow their objects with every sync. [Manager.TearDownVolumes] undoes
// all of it after the containers have stopped; what is on disk and mounted is
// found again after a restart of the engine.
//
// A sub-path is opened inside its volume and held by a bind mount until the
// container has started, so whatever swaps the path in between comes too late.
// That, and volumes in memory, need root; without it pods that ask for them wait.
//
// # Images and objects
//
// An image that is present but was pulled with another pod's secret is used only by
// pods that have that secret or an equal one; others pull by themselves. The records
// of it are files below RootDir. [Manager.Pulling] tells what a pod waits for.
// Config maps and secrets come from the caller's [ObjectGetter]; what a secret holds
// gets into no event, error, waiting message or log, not even where a runtime quotes
// an argument or a path that was made with it.
//
// # Where it differs from the kubelet on purpose
//
// Beside what spec/runtime.md marks as FIX and LIB:
//
//   - A new sandbox starts no container that has ended for good, whatever gave
//     it that policy; the kubelet looks only for OnFailure and exit code 0.
//   - The record of an init container that cannot be removed ends the sync
//     before the new sandbox, as a left record would make init look done.
//   - What a container gets at least to stop (2 s) counts from the first stop
//     signal: a kill whose grace shrinks is not raised to it again.
//   - PostStart hooks of the kinds exec and httpGet have a bound.
//   - A preStop hook runs once, however often the kill is issued again.
//   - A dead sandbox is stopped again only to make room for a new one.
//   - A container that was created and never started is removed before the next
//     one of its name is created.
//   - Creation that may have taken effect unseen is settled by looking, and a
//     name that stays taken is given up for the next number.
//   - Waiting for a pull slot has no queue limit. Containers that want the same
//     image with the same credentials share one pull, which ends with the last of
//     them; who has other credentials pulls by himself.
//   - A pull with a pod's secret whose end nobody saw leaves its note behind, so
//     that the image is nobody's until it is pulled again. An anonymous pull makes
//     no such note.
//   - An image text that is an absolute path goes to the runtime as it is.
//
// # Concurrency
//
// Different pods are served concurrently without a common lock; no lock is held
// over a call. The caller serialises [Manager.SyncPod] per pod. Only
// [Manager.KillPod] may be called again while an earlier kill of the same pod is
// still in flight: a shorter grace period then takes effect at once
// (spec/runtime.md 16.6). Every runtime call gets the caller's context, and every
// goroutine a method starts has ended when the method returns.
package pods
