package cri

import (
	"context"
	"io"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Streamer is an optional ability of a [RuntimeService]: a server of its own for
// streams. Each method prepares one stream and returns the URL at which the runtime
// serves it, once and for a short time (spec/runtime.md 27.1). The methods have the
// signatures of k8s.io/cri-api/pkg/apis and the concurrency contract of RuntimeService;
// they return at once, not when the stream ends.
type Streamer interface {
	// Exec prepares a command in a running container.
	Exec(ctx context.Context, request *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error)
	// Attach prepares a connection to the main process of a running container.
	Attach(ctx context.Context, request *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error)
	// PortForward prepares connections to ports of a sandbox.
	PortForward(ctx context.Context, request *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error)
}

// DirectStreamer is what a runtime inside this program offers in place of a
// [Streamer]: it serves streams itself (spec/runtime.md 27.2). The concurrency contract is
// that of RuntimeService; each call blocks until its stream ends.
type DirectStreamer interface {
	// ExecStream runs cmd in the container until it ends. A non-zero exit is an error that
	// implements interface{ ExitStatus() int }, see [runtime.ExitError]. When ctx or the container
	// ends, cmd and its session are killed.
	ExecStream(ctx context.Context, containerID string, cmd []string, streams Streams) error
	// AttachStream connects to the container's main process until that process ends. It fails with
	// [runtime.ErrUnimplemented] if the runtime cannot attach.
	AttachStream(ctx context.Context, containerID string, streams Streams) error
}

// DirectForwarder is an optional ability of a runtime inside this program: it connects callers to
// ports of pods itself (spec/runtime.md 27.8). The concurrency contract is that of RuntimeService.
type DirectForwarder interface {
	// ForwardPort connects conn to a TCP port, 1 to 65535, in the network of a ready sandbox, and blocks until
	// the pod closes its side. The end of what conn reads is passed on, and what the pod sends after that still
	// arrives. ForwardPort fails if nothing listens on the port, and when ctx or the sandbox ends. Each call
	// makes a connection of its own. ForwardPort does not close conn, and a Read or Write of conn may outlast the
	// call, so the caller must close it.
	ForwardPort(ctx context.Context, podSandboxID string, port int32, conn io.ReadWriter) error
}

// Streams are the caller's ends of a stream. The callee closes none of them and uses none
// after the call has returned, except that a Read of Stdin under way at that moment may
// go on until it returns.
type Streams struct {
	// Stdin is the input; nil means empty.
	Stdin io.Reader
	// Stdout and Stderr receive the output; nil discards it.
	Stdout, Stderr io.Writer
	// TTY gives the command a terminal. Then all of its output goes to Stdout.
	TTY bool
	// Resize delivers the terminal's sizes. It may be closed; nil means the size never changes.
	Resize <-chan TerminalSize
}

// TerminalSize is the size of a terminal in characters.
type TerminalSize struct{ Width, Height uint16 }

// StatsLister is an optional ability of a [RuntimeService]: it measures everything at
// once. The concurrency contract is that of RuntimeService.
type StatsLister interface {
	// ListContainerStats returns what the running containers that match filter use; nil
	// matches all.
	ListContainerStats(ctx context.Context, filter *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error)
	// ListPodSandboxStats returns what the pods that match filter use. Older runtimes
	// answer [runtime.ErrUnimplemented].
	ListPodSandboxStats(ctx context.Context, filter *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error)
}

// Checkpointer is an optional ability of a [RuntimeService]: it writes the state of a
// running container to a file. The concurrency contract is that of RuntimeService.
type Checkpointer interface {
	// CheckpointContainer writes the archive that request names, or fails with [runtime.ErrUnimplemented]
	// if the runtime cannot. A zero timeout in request means the runtime's default.
	CheckpointContainer(ctx context.Context, request *runtimeapi.CheckpointContainerRequest) error
}

// ResourceUpdater is an optional ability of a [RuntimeService]: it changes what
// containers may use while they run (spec/runtime.md 21). Without it a resize that
// does not restart the container is refused. The concurrency contract is that of
// [RuntimeService]; repeating a call is harmless.
type ResourceUpdater interface {
	// UpdateContainerResources changes the resources of a created or running
	// container, [runtime.ErrNotFound] if it does not exist. What the request leaves at
	// zero stays as it is.
	UpdateContainerResources(ctx context.Context, containerID string, resources *runtimeapi.ContainerResources) error
	// UpdatePodSandboxResources tells the runtime what the pod as a whole may use from
	// now on. [runtime.ErrUnimplemented] is an acceptable answer (spec/runtime.md 21.8).
	UpdatePodSandboxResources(ctx context.Context, request *runtimeapi.UpdatePodSandboxResourcesRequest) (*runtimeapi.UpdatePodSandboxResourcesResponse, error)
}

// StatsReader is an optional ability of a [RuntimeService]: it measures what a
// container uses. Without it a memory limit is lowered without a check (spec/runtime.md
// 21.7). The concurrency contract is that of RuntimeService.
type StatsReader interface {
	// ContainerStats returns what the container uses now, [runtime.ErrNotFound] if it
	// does not exist.
	ContainerStats(ctx context.Context, containerID string) (*runtimeapi.ContainerStats, error)
}
