package runtimetest

import (
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

func resourceCases() []namedCase {
	return []namedCase{
		{"an update keeps the container running", updateRunning},
		{"an update of an unknown container is not found", updateUnknown},
		{"sandbox resources are taken or not known at all", updateSandbox},
		{"stats of a running container", statsRunning},
	}
}

// updater returns the ability the cases here are about, or skips the case.
func (e *env) updater() cri.ResourceUpdater {
	u, ok := e.Runtime.(cri.ResourceUpdater)
	if !ok {
		e.Skip("the runtime does not change resources")
	}
	return u
}

// updateRunning: a runtime may report resources or not. If it does, it reports what it
// was last told.
func updateRunning(e *env) {
	updater := e.updater()
	s := e.sandbox()
	linux := func(shares, memory int64) *runtimeapi.LinuxContainerResources {
		return &runtimeapi.LinuxContainerResources{CpuShares: shares, CpuPeriod: 100000, CpuQuota: 100000, MemoryLimitInBytes: memory}
	}
	id := e.start(s, Program{Run: Forever}, func(c *runtimeapi.ContainerConfig) {
		c.Linux.Resources = linux(256, 64<<20)
	})
	for range 2 { // a repeated update is harmless
		e.must(updater.UpdateContainerResources(e.ctx, id, &runtimeapi.ContainerResources{Linux: linux(512, 96<<20)}))
	}
	status := e.status(id)
	if status.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		e.Errorf("state %v after an update, want running", status.GetState())
	}
	if got := status.GetResources().GetLinux(); got != nil && (got.GetCpuShares() != 512 || got.GetMemoryLimitInBytes() != 96<<20) {
		e.Errorf("the status shows %v, want 512 shares and %d bytes", got, 96<<20)
	}
}

func updateUnknown(e *env) {
	err := e.updater().UpdateContainerResources(e.ctx, unknownID, &runtimeapi.ContainerResources{
		Linux: &runtimeapi.LinuxContainerResources{CpuShares: 512},
	})
	e.wantNotFound("update of an unknown container", err)
}

func updateSandbox(e *env) {
	s := e.sandbox()
	_, err := e.updater().UpdatePodSandboxResources(e.ctx, &runtimeapi.UpdatePodSandboxResourcesRequest{
		PodSandboxId: s.id, Resources: &runtimeapi.LinuxContainerResources{CpuShares: 512},
	})
	if err != nil && cri.Class(err) != runtime.ErrUnimplemented {
		e.Errorf("got %v, want success or %v", err, runtime.ErrUnimplemented)
	}
}

func statsRunning(e *env) {
	reader, ok := e.Runtime.(cri.StatsReader)
	if !ok {
		e.Skip("the runtime does not measure containers")
	}
	s := e.sandbox()
	id := e.start(s, Program{Run: Forever})
	stats, err := reader.ContainerStats(e.ctx, id)
	e.must(err)
	if stats.GetMemory() == nil {
		e.Errorf("stats %v, want memory", stats)
	}
	_, err = reader.ContainerStats(e.ctx, unknownID)
	e.wantNotFound("stats of an unknown container", err)
}
