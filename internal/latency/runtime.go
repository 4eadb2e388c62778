package latency

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime/cri"
)

// Runtime wraps a runtime so that x learns of the calls a sync begins with.
func (x *Exits) Runtime(inner cri.RuntimeService) cri.RuntimeService {
	return timedRuntime{inner, x}
}

// timedRuntime tells Exits about the calls a sync begins with.
type timedRuntime struct {
	cri.RuntimeService
	exits *Exits
}

func (t timedRuntime) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	t.exits.calls(ctx)
	return t.RuntimeService.RunPodSandbox(ctx, config, handler)
}

func (t timedRuntime) CreateContainer(ctx context.Context, podSandboxID string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	t.exits.calls(ctx)
	return t.RuntimeService.CreateContainer(ctx, podSandboxID, config, sandboxConfig)
}

func (t timedRuntime) StopContainer(ctx context.Context, containerID string, timeout int64) error {
	t.exits.calls(ctx)
	return t.RuntimeService.StopContainer(ctx, containerID, timeout)
}

func (t timedRuntime) StopPodSandbox(ctx context.Context, podSandboxID string) error {
	t.exits.calls(ctx)
	return t.RuntimeService.StopPodSandbox(ctx, podSandboxID)
}
