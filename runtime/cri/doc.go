// Package cri is the Container Runtime Interface as the engine speaks it: the Go interfaces
// that a runtime implements ([RuntimeService], [ImageService], and optional abilities such
// as [EventStreamer]), the [View] that turns raw lists into the types of package runtime,
// the [Class] of an error, and a [Client] for containerd, CRI-O or anything else that
// serves k8s.io/cri-api/pkg/apis/runtime/v1 on a unix socket.
//
//	RuntimeService ──ListPodSandbox──┐
//	  (Client,        ListContainers ├──► View ──► runtime.Pod        (what exists)
//	   process, fake) …Status────────┘         └─► runtime.PodStatus  (what it looks like)
//
// Method signatures are those of k8s.io/cri-api/pkg/apis, narrowed to what is used, so that
// any existing Go CRI client satisfies the interfaces.
//
// # Identity and ownership
//
// The pod UID is the key of everything. A sandbox or container belongs to a pod
// through its labels (runtime.LabelPodUID and others). Objects without these labels belong to
// other programs and never appear in a [View]. With an owner ID ([ViewOptions]) objects
// of other owners are invisible too.
//
// # The client
//
//	caller ──► Client ── deadline per call ──► gRPC ──unix socket──► runtime
//	   ▲          │                                                     │
//	   └ *Error ◄─┴── class, exit code, secrets removed ◄───────────────┘
//
// [Dial] makes one. It decides nothing: it does not retry calls, cache answers or know
// pods. One call of the Client is one call of the runtime, except that it streams
// lists where the runtime can do that, checks the filter of image lists, and watches
// pulls.
//
// # Deadlines
//
// Besides the caller's context, every call has a limit of its own: T =
// [Options].CallTimeout for most, 2T for RunPodSandbox, T plus the grace period for
// StopContainer, T plus the command's time-out for ExecSync (none without one).
// PullImage has none as long as the runtime answers, unless [Options].PullStallTimeout is set (spec/runtime.md 23).
//
// # When the runtime is down
//
// A call fails at once with runtime.ErrUnavailable instead of waiting for the runtime to come back: a
// level-triggered engine tries again anyway. The Client reconnects in the background, with 100 ms to 3 s
// between attempts, and on the first call after a loss. A call that was under way when the runtime went down
// also fails with runtime.ErrUnavailable, and may have taken effect ([MayHaveActed]); one that had no
// connection has not: its error is also a runtime.ErrNotSent.
//
// # Errors
//
// Every failed call returns a [*Error]. Test the class with errors.Is and the
// Err… values of package runtime. Passwords and tokens given to PullImage appear
// in no error, and the package logs nothing.
package cri
