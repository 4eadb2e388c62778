package fake

import (
	"context"
	"fmt"
	"maps"
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

var (
	_ cri.Streamer    = (*Runtime)(nil)
	_ cri.StatsLister = (*Runtime)(nil)
)

// Exec returns Options.StreamURL + "/exec/" + the container's ID; the fake itself serves no
// stream. The container must be running.
func (f *Runtime) Exec(ctx context.Context, request *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	request = clone(request)
	url, err := f.streamURL(ctx, Call{Method: ExecStream, ContainerID: request.GetContainerId(), Request: request}, "/exec/")
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ExecResponse{Url: url}, nil
}

// Attach returns Options.StreamURL + "/attach/" + the container's ID, see Exec.
func (f *Runtime) Attach(ctx context.Context, request *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	request = clone(request)
	url, err := f.streamURL(ctx, Call{Method: AttachStream, ContainerID: request.GetContainerId(), Request: request}, "/attach/")
	if err != nil {
		return nil, err
	}
	return &runtimeapi.AttachResponse{Url: url}, nil
}

// PortForward returns Options.StreamURL + "/portforward/" + the sandbox's ID, which must be ready.
func (f *Runtime) PortForward(ctx context.Context, request *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	request = clone(request)
	id := request.GetPodSandboxId()
	url, err := f.streamURL(ctx, Call{Method: PortForwardStream, SandboxID: id, Request: request}, "/portforward/")
	if err != nil {
		return nil, err
	}
	return &runtimeapi.PortForwardResponse{Url: url}, nil
}

// streamURL records a call that asks for a stream, and answers it.
func (f *Runtime) streamURL(ctx context.Context, call Call, path string) (string, error) {
	return do(ctx, f, call, step[string]{effect: func() (string, error) {
		if f.options.StreamURL == "" {
			return "", fmt.Errorf("%s without Options.StreamURL: %w", call.Method, runtime.ErrUnimplemented)
		}
		if id := call.SandboxID; call.Method == PortForwardStream {
			switch s := f.sandboxes.byID[id]; {
			case s == nil:
				return "", fmt.Errorf("sandbox %q: %w", id, runtime.ErrNotFound)
			case !s.ready:
				return "", fmt.Errorf("sandbox %q is not ready: %w", id, runtime.ErrFailedPrecondition)
			}
			return f.options.StreamURL + path + id, nil
		}
		id := call.ContainerID
		switch c := f.containers.byID[id]; {
		case c == nil:
			return "", fmt.Errorf("container %q: %w", id, runtime.ErrNotFound)
		case !c.running():
			return "", fmt.Errorf("container %q is in state %v: %w", id, c.state, runtime.ErrFailedPrecondition)
		}
		return f.options.StreamURL + path + id, nil
	}})
}

// ListContainerStats returns the memory that running containers use, see SetMemoryUsage, in
// order of creation.
func (f *Runtime) ListContainerStats(ctx context.Context, filter *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	filter = clone(filter)
	call := Call{Method: ListContainerStats, Request: &runtimeapi.ListContainerStatsRequest{Filter: filter}}
	return do(ctx, f, call, step[[]*runtimeapi.ContainerStats]{filter: keepContainerStats, effect: func() ([]*runtimeapi.ContainerStats, error) {
		var out []*runtimeapi.ContainerStats
		for _, c := range f.containers.all {
			if c.running() && (filter.GetId() == "" || filter.GetId() == c.id) &&
				(filter.GetPodSandboxId() == "" || filter.GetPodSandboxId() == c.sandbox.id) &&
				selects(filter.GetLabelSelector(), c.config.GetLabels()) {
				out = append(out, c.stats())
			}
		}
		return out, nil
	}})
}

// ListPodSandboxStats returns the ready sandboxes, each with its running containers, in order
// of creation.
func (f *Runtime) ListPodSandboxStats(ctx context.Context, filter *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error) {
	filter = clone(filter)
	call := Call{Method: ListPodSandboxStats, Request: &runtimeapi.ListPodSandboxStatsRequest{Filter: filter}}
	return do(ctx, f, call, step[[]*runtimeapi.PodSandboxStats]{filter: keepSandboxStats, effect: func() ([]*runtimeapi.PodSandboxStats, error) {
		var out []*runtimeapi.PodSandboxStats
		for _, s := range f.sandboxes.all {
			if !s.ready || filter.GetId() != "" && filter.GetId() != s.id ||
				!selects(filter.GetLabelSelector(), s.config.GetLabels()) {
				continue
			}
			stats := &runtimeapi.PodSandboxStats{
				Attributes: &runtimeapi.PodSandboxAttributes{
					Id: s.id, Metadata: copySandboxMetadata(s.config.GetMetadata()),
					Labels: maps.Clone(s.config.GetLabels()), Annotations: maps.Clone(s.config.GetAnnotations()),
				},
				Linux: &runtimeapi.LinuxPodSandboxStats{},
			}
			for _, c := range s.containers {
				if c.running() {
					stats.Linux.Containers = append(stats.Linux.Containers, c.stats())
				}
			}
			out = append(out, stats)
		}
		return out, nil
	}})
}

// keepContainerStats and keepSandboxStats filter by the ID of the object that is measured.
func keepContainerStats(list []*runtimeapi.ContainerStats, keep func(id string) bool) []*runtimeapi.ContainerStats {
	return slices.DeleteFunc(list, func(s *runtimeapi.ContainerStats) bool { return !keep(s.GetAttributes().GetId()) })
}

func keepSandboxStats(list []*runtimeapi.PodSandboxStats, keep func(id string) bool) []*runtimeapi.PodSandboxStats {
	return slices.DeleteFunc(list, func(s *runtimeapi.PodSandboxStats) bool { return !keep(s.GetAttributes().GetId()) })
}
