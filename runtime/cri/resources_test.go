package cri_test

import (
	"math"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

func reported(linux *runtimeapi.LinuxContainerResources) runtime.Resources {
	status := &runtimeapi.ContainerStatus{Resources: &runtimeapi.ContainerResources{Linux: linux}}
	return cri.NewContainerStatus(status, "r").Resources
}

// spec/runtime.md 13: the inverse formulas, and 1.8: what a status reports.
func TestResourcesOfAStatus(t *testing.T) {
	for _, row := range []struct{ shares, want int64 }{
		{-1, 0}, {0, 0}, {1, 0}, {2, 2}, {102, 100}, {512, 500}, {1024, 1000}, {262144, 256000}, {math.MaxInt64, 256000},
	} {
		if got := reported(&runtimeapi.LinuxContainerResources{CpuShares: row.shares}).MilliCPURequest; got != row.want {
			t.Errorf("%d shares are %d m, want %d", row.shares, got, row.want)
		}
	}
	for _, row := range []struct{ quota, period, want int64 }{
		{-1, 100000, 0}, {0, 100000, 0}, {1000, 0, 0}, {1000, 100000, 10}, {50000, 100000, 500}, {200000, 100000, 2000},
	} {
		if got := reported(&runtimeapi.LinuxContainerResources{CpuQuota: row.quota, CpuPeriod: row.period}).MilliCPULimit; got != row.want {
			t.Errorf("a quota of %d in %d is %d m, want %d", row.quota, row.period, got, row.want)
		}
	}
	linux := &runtimeapi.LinuxContainerResources{CpuShares: 512, CpuQuota: 100000, CpuPeriod: 100000, MemoryLimitInBytes: 1 << 20}
	if got, want := reported(linux), (runtime.Resources{MilliCPURequest: 500, MilliCPULimit: 1000, MemoryLimit: 1 << 20}); got != want {
		t.Errorf("1.8: %+v, want %+v", got, want)
	}
	if got := cri.NewContainerStatus(&runtimeapi.ContainerStatus{}, "r").Resources; got != (runtime.Resources{}) {
		t.Errorf("nothing reported, and yet %+v", got)
	}
}
