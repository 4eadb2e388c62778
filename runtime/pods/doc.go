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
// talks to no API server. Values from config maps and secrets, volumes other
// than emptyDir on disk and hostPath, pull secrets, user namespaces, device
// plugins and in-place resize are not here yet: a pod that needs one of them
// waits with a clear reason.
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
