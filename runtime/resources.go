package runtime

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ResourceUpdater is an optional ability of a [RuntimeService]: it changes what
// containers may use while they run (spec/runtime.md 21). Without it a resize that
// does not restart the container is refused. The concurrency contract is that of
// [RuntimeService]; repeating a call is harmless.
type ResourceUpdater interface {
	// UpdateContainerResources changes the resources of a created or running
	// container, [ErrNotFound] if it does not exist. What the request leaves at
	// zero stays as it is.
	UpdateContainerResources(ctx context.Context, containerID string, resources *runtimeapi.ContainerResources) error
	// UpdatePodSandboxResources tells the runtime what the pod as a whole may use
	// from now on. [ErrUnimplemented] is a fine answer (spec/runtime.md 21.8).
	UpdatePodSandboxResources(ctx context.Context, request *runtimeapi.UpdatePodSandboxResourcesRequest) (*runtimeapi.UpdatePodSandboxResourcesResponse, error)
}

// StatsReader is an optional ability of a [RuntimeService]: it measures what a
// container uses. Without it a memory limit is lowered without a check (spec/runtime.md
// 21.7). The concurrency contract is that of RuntimeService.
type StatsReader interface {
	// ContainerStats returns what the container uses now, [ErrNotFound] if it
	// does not exist.
	ContainerStats(ctx context.Context, containerID string) (*runtimeapi.ContainerStats, error)
}

// Resources are what a container runs with, as a runtime reports it or as it was
// last told. Zero: not known, or not limited.
type Resources struct {
	// MilliCPURequest and MilliCPULimit are thousandths of a CPU. Reported ones come
	// back through cgroup values, so they may differ a little from what was asked.
	MilliCPURequest int64 `json:"milliCPURequest,omitempty"`
	MilliCPULimit   int64 `json:"milliCPULimit,omitempty"`
	// MemoryRequest and MemoryLimit are in bytes. No runtime reports the request.
	MemoryRequest int64 `json:"memoryRequest,omitempty"`
	MemoryLimit   int64 `json:"memoryLimit,omitempty"`
}

// milliFromShares turns cgroup CPU shares into thousandths of a CPU
// (spec/runtime.md 13).
func milliFromShares(shares int64) int64 {
	if shares < minShares {
		return 0
	}
	if shares > maxShares {
		shares = maxShares
	}
	return (shares*1000 + 1023) / 1024
}

// milliFromQuota turns a CPU quota per period, both in microseconds, into
// thousandths of a CPU; no quota is 0 (spec/runtime.md 13).
func milliFromQuota(quota, period int64) int64 {
	const most = 1 << 50 // keeps the product in range
	if quota <= 0 || period <= 0 {
		return 0
	}
	return min(quota, most) * 1000 / period
}

// The range of cgroup CPU shares.
const (
	minShares = 2
	maxShares = 262144
)

// NewResources converts the settings of a cgroup; the zero value if there are none
// (spec/runtime.md 1.8).
func NewResources(linux *runtimeapi.LinuxContainerResources) Resources {
	if linux == nil {
		return Resources{}
	}
	return Resources{
		MilliCPURequest: milliFromShares(linux.GetCpuShares()),
		MilliCPULimit:   milliFromQuota(linux.GetCpuQuota(), linux.GetCpuPeriod()),
		MemoryLimit:     max(linux.GetMemoryLimitInBytes(), 0),
	}
}
