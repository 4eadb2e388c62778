package fake_test

import (
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
)

// What a request leaves at zero stays, what the caller holds is not touched, and an
// exited container cannot be changed.
func TestUpdateResources(t *testing.T) {
	r := newRig(t, fake.Options{})
	sandbox, err := r.RunPodSandbox(r.ctx, sandboxConfig(0), "")
	r.must(err)
	config := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: image},
		Linux: &runtimeapi.LinuxContainerConfig{Resources: &runtimeapi.LinuxContainerResources{CpuShares: 100, MemoryLimitInBytes: 1000}},
	}
	id, err := r.CreateContainer(r.ctx, sandbox, config, sandboxConfig(0))
	r.must(err)
	update := func() error {
		return r.UpdateContainerResources(r.ctx, id, &runtimeapi.ContainerResources{Linux: &runtimeapi.LinuxContainerResources{
			CpuShares: 200, Unified: map[string]string{"memory.high": "7"},
		}})
	}
	r.must(update()) // created
	r.must(r.StartContainer(r.ctx, id))
	r.must(update()) // running
	response, err := r.ContainerStatus(r.ctx, id, false)
	r.must(err)
	if got := response.GetStatus().GetResources().GetLinux(); got.GetCpuShares() != 200 || got.GetMemoryLimitInBytes() != 1000 || got.GetUnified()["memory.high"] != "7" {
		t.Errorf("%v, want 200 shares, 1000 bytes and memory.high", got)
	}
	if got := config.GetLinux().GetResources(); got.GetCpuShares() != 100 || got.GetUnified() != nil {
		t.Errorf("the caller's config became %v", got)
	}
	r.SetMemoryUsage(uid, "app", 77)
	stats, err := r.ContainerStats(r.ctx, id)
	r.must(err)
	if got := stats.GetMemory().GetUsageBytes().GetValue(); got != 77 {
		t.Errorf("%d bytes used, want 77", got)
	}
	r.must(r.StopContainer(r.ctx, id, 0))
	if err := update(); cri.Class(err) != runtime.ErrFailedPrecondition {
		t.Errorf("update of an exited container: %v", err)
	}
}
