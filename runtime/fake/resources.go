package fake

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

var (
	_ cri.ResourceUpdater = (*Runtime)(nil)
	_ cri.StatsReader     = (*Runtime)(nil)
)

// UpdateContainerResources changes the resources that the status of a created or
// running container shows. What is zero in the request stays as it is.
func (f *Runtime) UpdateContainerResources(ctx context.Context, id string, resources *runtimeapi.ContainerResources) error {
	resources = clone(resources)
	call := Call{
		Method: UpdateContainerResources, ContainerID: id,
		Request: &runtimeapi.UpdateContainerResourcesRequest{ContainerId: id, Linux: resources.GetLinux()},
	}
	_, err := do(ctx, f, call, step[struct{}]{effect: func() (struct{}, error) {
		c := f.containers.byID[id]
		switch {
		case c == nil:
			return struct{}{}, fmt.Errorf("container %q: %w", id, runtime.ErrNotFound)
		case !c.running() && c.state != runtimeapi.ContainerState_CONTAINER_CREATED:
			return struct{}{}, fmt.Errorf("container %q is in state %v: %w", id, c.state, runtime.ErrFailedPrecondition)
		}
		c.resources = updated(c.resources, resources.GetLinux())
		return struct{}{}, nil
	}})
	return err
}

// updated returns a copy of from with the fields that to sets.
func updated(from, to *runtimeapi.LinuxContainerResources) *runtimeapi.LinuxContainerResources {
	out := clone(from)
	if out == nil {
		out = &runtimeapi.LinuxContainerResources{}
	}
	for _, field := range []struct {
		have *int64
		want int64
	}{
		{&out.CpuPeriod, to.GetCpuPeriod()},
		{&out.CpuQuota, to.GetCpuQuota()},
		{&out.CpuShares, to.GetCpuShares()},
		{&out.MemoryLimitInBytes, to.GetMemoryLimitInBytes()},
		{&out.OomScoreAdj, to.GetOomScoreAdj()},
		{&out.MemorySwapLimitInBytes, to.GetMemorySwapLimitInBytes()},
	} {
		if field.want != 0 {
			*field.have = field.want
		}
	}
	out.CpusetCpus = cmp.Or(to.GetCpusetCpus(), out.GetCpusetCpus())
	out.CpusetMems = cmp.Or(to.GetCpusetMems(), out.GetCpusetMems())
	if len(to.GetUnified()) > 0 {
		if out.Unified == nil {
			out.Unified = map[string]string{}
		}
		maps.Copy(out.Unified, to.GetUnified())
	}
	return out
}

// UpdatePodSandboxResources succeeds for a sandbox that exists. It changes nothing
// visible.
func (f *Runtime) UpdatePodSandboxResources(ctx context.Context, request *runtimeapi.UpdatePodSandboxResourcesRequest) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	request = clone(request)
	call := Call{Method: UpdatePodSandboxResources, SandboxID: request.GetPodSandboxId(), Request: request}
	return do(ctx, f, call, step[*runtimeapi.UpdatePodSandboxResourcesResponse]{effect: func() (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
		if f.sandboxes.byID[request.GetPodSandboxId()] == nil {
			return nil, fmt.Errorf("sandbox %q: %w", request.GetPodSandboxId(), runtime.ErrNotFound)
		}
		return &runtimeapi.UpdatePodSandboxResourcesResponse{}, nil
	}})
}

// SetMemoryUsage sets how many bytes the containers of this name in this pod use,
// as [Runtime.ContainerStats] reports it. New containers use none.
func (f *Runtime) SetMemoryUsage(podUID types.UID, name string, bytes uint64) {
	f.locked(func() {
		for _, c := range f.containers.all {
			if c.key == (containerKey{podUID, name}) {
				c.memory = bytes
			}
		}
	})
}

// ContainerStats returns the memory that a container uses, see SetMemoryUsage.
func (f *Runtime) ContainerStats(ctx context.Context, id string) (*runtimeapi.ContainerStats, error) {
	call := Call{Method: ContainerStats, ContainerID: id, Request: &runtimeapi.ContainerStatsRequest{ContainerId: id}}
	return do(ctx, f, call, step[*runtimeapi.ContainerStats]{effect: func() (*runtimeapi.ContainerStats, error) {
		c := f.containers.byID[id]
		if c == nil {
			return nil, fmt.Errorf("container %q: %w", id, runtime.ErrNotFound)
		}
		return c.stats(), nil
	}})
}

// stats returns what the container uses. The runtime's lock must be held.
func (c *container) stats() *runtimeapi.ContainerStats {
	return &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{
			Id: c.id, Metadata: copyContainerMetadata(c.config.GetMetadata()),
			Labels: maps.Clone(c.config.GetLabels()), Annotations: maps.Clone(c.config.GetAnnotations()),
		},
		Memory: &runtimeapi.MemoryUsage{
			WorkingSetBytes: &runtimeapi.UInt64Value{Value: c.memory},
			UsageBytes:      &runtimeapi.UInt64Value{Value: c.memory},
		},
	}
}
