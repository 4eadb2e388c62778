package runtime

import (
	"context"

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

// StatsLister is an optional ability of a [RuntimeService]: it measures everything at
// once. The concurrency contract is that of RuntimeService.
type StatsLister interface {
	// ListContainerStats returns what the running containers that match filter use; nil
	// matches all.
	ListContainerStats(ctx context.Context, filter *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error)
	// ListPodSandboxStats returns what the pods that match filter use. Older runtimes
	// answer [ErrUnimplemented].
	ListPodSandboxStats(ctx context.Context, filter *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error)
}

// Checkpointer is an optional ability of a [RuntimeService]: it writes the state of a
// running container to a file. The concurrency contract is that of RuntimeService.
type Checkpointer interface {
	// CheckpointContainer writes the archive that request names, [ErrUnimplemented] if
	// the runtime cannot. A zero timeout in request is the runtime's default.
	CheckpointContainer(ctx context.Context, request *runtimeapi.CheckpointContainerRequest) error
}
