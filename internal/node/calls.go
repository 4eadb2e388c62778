package node

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime/cri"
)

// WatchRuntime lists the calls of a runtime that take too long, with the pods they are made for.
func WatchRuntime(service cri.RuntimeService, calls *foreign.Calls) cri.RuntimeService {
	return watchedRuntime{service, calls}
}

// watchedRuntime lists the calls that change something or wait in a container.
type watchedRuntime struct {
	cri.RuntimeService
	calls *foreign.Calls
}

// watch lists a call; more is how much longer than usual it may take.
func (w watchedRuntime) watch(ctx context.Context, name string, more time.Duration) (done func()) {
	uid, _ := foreign.PodOf(ctx)
	return w.calls.Watch(foreign.Call{Kind: problem.RuntimeCall, Name: name, UID: uid, Patience: problem.CallLimit + more})
}

func (w watchedRuntime) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	m := config.GetMetadata()
	defer w.calls.Watch(foreign.Call{
		Kind: problem.RuntimeCall, Name: "RunPodSandbox", Patience: problem.CallLimit,
		UID: types.UID(m.GetUid()), Pod: problem.Of(m.GetNamespace(), m.GetName(), types.UID(m.GetUid())),
	})()
	return w.RuntimeService.RunPodSandbox(ctx, config, handler)
}

func (w watchedRuntime) StopPodSandbox(ctx context.Context, id string) error {
	defer w.watch(ctx, "StopPodSandbox", 0)()
	return w.RuntimeService.StopPodSandbox(ctx, id)
}

func (w watchedRuntime) RemovePodSandbox(ctx context.Context, id string) error {
	defer w.watch(ctx, "RemovePodSandbox", 0)()
	return w.RuntimeService.RemovePodSandbox(ctx, id)
}

func (w watchedRuntime) CreateContainer(ctx context.Context, sandbox string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	defer w.watch(ctx, "CreateContainer", 0)()
	return w.RuntimeService.CreateContainer(ctx, sandbox, config, sandboxConfig)
}

func (w watchedRuntime) StartContainer(ctx context.Context, id string) error {
	defer w.watch(ctx, "StartContainer", 0)()
	return w.RuntimeService.StartContainer(ctx, id)
}

func (w watchedRuntime) StopContainer(ctx context.Context, id string, timeout int64) error {
	defer w.watch(ctx, "StopContainer", timing.Seconds(timeout))()
	return w.RuntimeService.StopContainer(ctx, id, timeout)
}

func (w watchedRuntime) RemoveContainer(ctx context.Context, id string) error {
	defer w.watch(ctx, "RemoveContainer", 0)()
	return w.RuntimeService.RemoveContainer(ctx, id)
}

func (w watchedRuntime) ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error) {
	uid, _ := foreign.PodOf(ctx)
	call := foreign.Call{Kind: problem.RuntimeCall, Name: "ExecSync", UID: uid, Patience: problem.CallLimit + timeout}
	if timeout == 0 {
		call.Patience += problem.SetupLimit // a hook may take as long as it likes
		call.Advice = "look at what the command of the pod's hook waits for, then at the container runtime's log"
	}
	defer w.calls.Watch(call)()
	return w.RuntimeService.ExecSync(ctx, id, cmd, timeout)
}

func (w watchedRuntime) ReopenContainerLog(ctx context.Context, id string) error {
	defer w.watch(ctx, "ReopenContainerLog", 0)()
	return w.RuntimeService.ReopenContainerLog(ctx, id)
}

func (w watchedRuntime) PodSandboxStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	defer w.watch(ctx, "PodSandboxStatus", 0)()
	return w.RuntimeService.PodSandboxStatus(ctx, id, verbose)
}

func (w watchedRuntime) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	defer w.watch(ctx, "ContainerStatus", 0)()
	return w.RuntimeService.ContainerStatus(ctx, id, verbose)
}

// WatchImages lists the calls of an image store that take too long.
func WatchImages(service cri.ImageService, calls *foreign.Calls) cri.ImageService {
	return watchedImages{service, calls}
}

type watchedImages struct {
	cri.ImageService
	calls *foreign.Calls
}

func (w watchedImages) watch(name, image string) (done func()) {
	return w.calls.Watch(foreign.Call{Kind: problem.RuntimeCall, Name: name, Object: image, Patience: problem.CallLimit})
}

func (w watchedImages) ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	defer w.watch("ListImages", "")()
	return w.ImageService.ListImages(ctx, filter)
}

func (w watchedImages) ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error) {
	defer w.watch("ImageStatus", image.GetImage())()
	return w.ImageService.ImageStatus(ctx, image, verbose)
}

func (w watchedImages) PullImage(
	ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, sandbox *runtimeapi.PodSandboxConfig,
) (string, error) {
	defer w.calls.Watch(foreign.Call{
		Kind: problem.RuntimeCall, Name: "PullImage", Object: image.GetImage(), Patience: problem.PullLimit,
		UID: types.UID(sandbox.GetMetadata().GetUid()),
	})()
	return w.ImageService.PullImage(ctx, image, auth, sandbox)
}

func (w watchedImages) RemoveImage(ctx context.Context, image *runtimeapi.ImageSpec) error {
	defer w.calls.Watch(foreign.Call{
		Kind: problem.RuntimeCall, Name: "RemoveImage", Object: image.GetImage(), Patience: problem.CallLimit,
		Advice: "look at the container runtime's log; until the call returns no other image is removed",
	})()
	return w.ImageService.RemoveImage(ctx, image)
}
