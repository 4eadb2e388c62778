// Package cri talks to a container runtime over CRI v1 on a unix socket:
// containerd, CRI-O, or anything else that serves
// k8s.io/cri-api/pkg/apis/runtime/v1. [Client] implements
// runtime.RuntimeService, runtime.ImageService and runtime.EventStreamer.
//
//	caller ──► Client ── deadline per call ──► gRPC ──unix socket──► runtime
//	   ▲          │                                                     │
//	   └ *Error ◄─┴── class, exit code, secrets removed ◄───────────────┘
//
// The package decides nothing: it does not retry calls, cache answers or know
// pods. One call of the Client is one call of the runtime, except that it streams
// lists where the runtime can do that, checks the filter of image lists, and watches
// pulls.
//
// # Deadlines
//
// Every call has a limit of its own besides the caller's context: T =
// [Options].CallTimeout for most, 2T for RunPodSandbox, T plus the grace period
// for StopContainer, T plus the command's time-out for ExecSync (none without
// one). PullImage has no limit while it makes progress, see
// [Options].PullStallTimeout (spec/runtime.md 23).
//
// # When the runtime is down
//
// A call fails at once with runtime.ErrUnavailable; it never waits for the
// runtime to come back: a level-triggered engine tries again anyway. The connection is made again in the background, 100 ms to
// 3 s apart, and by the first call after a loss. A call that was under way when
// the runtime went down also fails with runtime.ErrUnavailable, and may have
// taken effect.
//
// # Errors
//
// Every failed call returns a [*Error]. Test the class with errors.Is and the
// Err… values of package runtime. Passwords and tokens given to PullImage appear
// in no error, and the package logs nothing.
package cri
