package podwright

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/runtime"
)

// finishTimeout is how long a start that is under way may go on after its sync was
// cancelled. Starts take a fraction of a second; a runtime that hangs must not keep
// the engine from ending.
const finishTimeout = 3 * time.Second

// finishingRuntime lets the calls of a start come to their end although the sync
// they belong to was cancelled, because the engine stops or the pod is to be
// stopped. A runtime whose call is cut off kills what it was starting: with policy
// Never an agent that is updated at the wrong moment would fail a pod's only run.
type finishingRuntime struct {
	runtime.RuntimeService
	clock clock.WithDelayedExecution
}

func (f finishingRuntime) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	ctx, done := f.outlast(ctx)
	defer done()
	return f.RuntimeService.RunPodSandbox(ctx, config, handler)
}

func (f finishingRuntime) CreateContainer(ctx context.Context, podSandboxID string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	ctx, done := f.outlast(ctx)
	defer done()
	return f.RuntimeService.CreateContainer(ctx, podSandboxID, config, sandboxConfig)
}

func (f finishingRuntime) StartContainer(ctx context.Context, containerID string) error {
	ctx, done := f.outlast(ctx)
	defer done()
	return f.RuntimeService.StartContainer(ctx, containerID)
}

// outlast returns a context that ends finishTimeout after ctx; one that has ended
// already is returned as it is. done must be called.
func (f finishingRuntime) outlast(ctx context.Context) (_ context.Context, done func()) {
	if ctx.Err() != nil {
		return ctx, func() {}
	}
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	timers := make(chan clock.Timer, 1)
	stop := context.AfterFunc(ctx, func() {
		timers <- f.clock.AfterFunc(finishTimeout, func() { cancel(context.Cause(ctx)) })
	})
	return longer, func() {
		if !stop() {
			(<-timers).Stop()
		}
		cancel(nil)
	}
}
