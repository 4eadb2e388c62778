// Package tracing makes OpenTelemetry spans of the lives of pods, using only the API:
//
//	pod start ──────────────► Ready, an end, or a stop before that
//	 ├─ syncPod               one step of its worker
//	 │   ├─ runtime.v1.RuntimeService/RunPodSandbox
//	 │   └─ runtime.v1.ImageService/PullImage
//	 └─ syncPod ...
//	syncPod                   of a pod that is up: a trace of its own
//	pod stop ───────────────► everything is released
//	 ├─ syncTerminatingPod
//	 │   └─ runtime.v1.RuntimeService/StopContainer
//	 └─ syncTerminatedPod
//
// [Traces] decorates the syncer, the runtime and the image service. A nil Traces decorates nothing.
// Spans have names, UIDs and classes of errors, but never a specification, an environment, or the
// text of an error, which may quote one.
package tracing
