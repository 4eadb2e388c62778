package podwright

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
)

// reportingRuntime tells pleg what a pod's own calls have just done. Some runtimes
// show for a moment less than they have answered; a reading that does is taken
// again before anybody acts on it (spec/pleg.md D7).
type reportingRuntime struct {
	runtime.RuntimeService
	report func(uid types.UID, id string, state runtime.State)
	unseen *unseen
}

// podKey is the context key of the pod a call is made for.
type podKey struct{}

// forPod marks the runtime calls made with ctx as calls for one pod.
func forPod(ctx context.Context, uid types.UID) context.Context {
	return context.WithValue(ctx, podKey{}, uid)
}

// succeeded returns the pod of a call that succeeded, false if it failed or was
// made for no pod.
func succeeded(ctx context.Context, err error) (types.UID, bool) {
	uid, ok := ctx.Value(podKey{}).(types.UID)
	return uid, ok && err == nil
}

// did reports a call that succeeded.
func (r reportingRuntime) did(ctx context.Context, err error, id string, state runtime.State) {
	if uid, ok := succeeded(ctx, err); ok {
		r.report(uid, id, state)
	}
}

// made notes an object that no view may be without from now on.
func (r reportingRuntime) made(ctx context.Context, err error, id string) {
	if uid, ok := succeeded(ctx, err); ok {
		r.unseen.add(uid, id)
	}
}

// removed forgets such an object.
func (r reportingRuntime) removed(ctx context.Context, err error, id string) {
	if uid, ok := succeeded(ctx, err); ok {
		r.unseen.gone(uid, id)
	}
}

func (r reportingRuntime) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	id, err := r.RuntimeService.RunPodSandbox(ctx, config, handler)
	r.made(ctx, err, id)
	r.did(ctx, err, id, runtime.Running)
	return id, err
}

func (r reportingRuntime) CreateContainer(ctx context.Context, podSandboxID string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	id, err := r.RuntimeService.CreateContainer(ctx, podSandboxID, config, sandboxConfig)
	r.made(ctx, err, id)
	r.did(ctx, err, id, runtime.Created)
	return id, err
}

func (r reportingRuntime) StartContainer(ctx context.Context, containerID string) error {
	err := r.RuntimeService.StartContainer(ctx, containerID)
	r.did(ctx, err, containerID, runtime.Running)
	return err
}

func (r reportingRuntime) StopContainer(ctx context.Context, containerID string, timeout int64) error {
	err := r.RuntimeService.StopContainer(ctx, containerID, timeout)
	r.did(ctx, err, containerID, runtime.Exited)
	return err
}

func (r reportingRuntime) StopPodSandbox(ctx context.Context, podSandboxID string) error {
	err := r.RuntimeService.StopPodSandbox(ctx, podSandboxID)
	r.did(ctx, err, podSandboxID, runtime.Exited)
	return err
}

func (r reportingRuntime) RemoveContainer(ctx context.Context, containerID string) error {
	err := r.RuntimeService.RemoveContainer(ctx, containerID)
	r.removed(ctx, err, containerID)
	return err
}

func (r reportingRuntime) RemovePodSandbox(ctx context.Context, podSandboxID string) error {
	err := r.RuntimeService.RemovePodSandbox(ctx, podSandboxID)
	r.removed(ctx, err, podSandboxID)
	return err
}
