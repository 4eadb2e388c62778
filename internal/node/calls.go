package node

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime/cri"
)

// WatchRuntime lists the calls of a runtime that take too long, with the pods they are made for. A panic is an error of the
// call (IN6): most calls are made on goroutines where it would end the program.
func WatchRuntime(service cri.RuntimeService, calls *foreign.Calls) cri.RuntimeService {
	return watchedRuntime{service, calls}
}

// watchedRuntime lists the calls that change something or wait in a container. Lists are not listed: those who need one say what
// they wait for.
type watchedRuntime struct {
	cri.RuntimeService
	calls *foreign.Calls
}

// contained makes a call. The error of a panic says for which pod or image the call was.
func contained[T any](calls *foreign.Calls, call foreign.Call, f func() (T, error)) (got T, err error) {
	err = calls.Contain(call, func() (err error) {
		got, err = f()
		return err
	})
	if _, panicked := err.(*foreign.PanicError); !panicked { //nolint:errorlint // only Contain's own
		return got, err
	}
	if pod := cmp.Or(call.Pod, string(call.UID)); pod != "" {
		err = fmt.Errorf("pod %s: %w", pod, err)
	}
	if call.Object != "" {
		err = fmt.Errorf("%s: %w", call.Object, err)
	}
	return got, err
}

// act is contained for a call that returns only an error.
func act(calls *foreign.Calls, call foreign.Call, f func() error) error {
	_, err := contained(calls, call, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// call describes a call about an object; more is how much longer than usual it may take.
func (w watchedRuntime) call(ctx context.Context, name, id string, more time.Duration) foreign.Call {
	uid, _ := foreign.PodOf(ctx)
	return foreign.Call{Kind: problem.RuntimeCall, Name: name, UID: uid, Part: id, Patience: problem.CallLimit + more}
}

// list describes a call whose wait is not listed.
func (w watchedRuntime) list(ctx context.Context, name string) foreign.Call {
	call := w.call(ctx, name, "", 0)
	call.Patience = 0
	return call
}

func (w watchedRuntime) Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error) {
	// The extra second lets a runtime that honours its context return before its caller goes on.
	return contained(w.calls, w.call(ctx, "Status", "", time.Second), func() (*runtimeapi.StatusResponse, error) {
		return w.RuntimeService.Status(ctx, verbose)
	})
}

func (w watchedRuntime) ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	return contained(w.calls, w.list(ctx, "ListPodSandbox"), func() ([]*runtimeapi.PodSandbox, error) {
		return w.RuntimeService.ListPodSandbox(ctx, filter)
	})
}

func (w watchedRuntime) ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	return contained(w.calls, w.list(ctx, "ListContainers"), func() ([]*runtimeapi.Container, error) {
		return w.RuntimeService.ListContainers(ctx, filter)
	})
}

func (w watchedRuntime) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	m := config.GetMetadata()
	call := foreign.Call{
		Kind: problem.RuntimeCall, Name: "RunPodSandbox", Patience: problem.CallLimit,
		UID: types.UID(m.GetUid()), Pod: problem.Of(m.GetNamespace(), m.GetName(), types.UID(m.GetUid())),
	}
	return contained(w.calls, call, func() (string, error) { return w.RuntimeService.RunPodSandbox(ctx, config, handler) })
}

func (w watchedRuntime) StopPodSandbox(ctx context.Context, id string) error {
	return act(w.calls, w.call(ctx, "StopPodSandbox", id, 0), func() error { return w.RuntimeService.StopPodSandbox(ctx, id) })
}

func (w watchedRuntime) RemovePodSandbox(ctx context.Context, id string) error {
	return act(w.calls, w.call(ctx, "RemovePodSandbox", id, 0), func() error { return w.RuntimeService.RemovePodSandbox(ctx, id) })
}

func (w watchedRuntime) CreateContainer(ctx context.Context, sandbox string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	return contained(w.calls, w.call(ctx, "CreateContainer", sandbox, 0), func() (string, error) {
		return w.RuntimeService.CreateContainer(ctx, sandbox, config, sandboxConfig)
	})
}

func (w watchedRuntime) StartContainer(ctx context.Context, id string) error {
	return act(w.calls, w.call(ctx, "StartContainer", id, 0), func() error { return w.RuntimeService.StartContainer(ctx, id) })
}

func (w watchedRuntime) StopContainer(ctx context.Context, id string, timeout int64) error {
	return act(w.calls, w.call(ctx, "StopContainer", id, timing.Seconds(timeout)), func() error {
		return w.RuntimeService.StopContainer(ctx, id, timeout)
	})
}

func (w watchedRuntime) RemoveContainer(ctx context.Context, id string) error {
	return act(w.calls, w.call(ctx, "RemoveContainer", id, 0), func() error { return w.RuntimeService.RemoveContainer(ctx, id) })
}

func (w watchedRuntime) ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error) {
	call := w.call(ctx, "ExecSync", id, timeout)
	if timeout == 0 {
		call.Patience += problem.SetupLimit // a hook may take as long as it likes
		call.Advice = "look at what the command of the pod's hook waits for, then at the container runtime's log"
	}
	err = act(w.calls, call, func() (err error) {
		stdout, stderr, err = w.RuntimeService.ExecSync(ctx, id, cmd, timeout)
		return err
	})
	return stdout, stderr, err
}

func (w watchedRuntime) ReopenContainerLog(ctx context.Context, id string) error {
	return act(w.calls, w.call(ctx, "ReopenContainerLog", id, 0), func() error { return w.RuntimeService.ReopenContainerLog(ctx, id) })
}

func (w watchedRuntime) PodSandboxStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	return contained(w.calls, w.call(ctx, "PodSandboxStatus", id, 0), func() (*runtimeapi.PodSandboxStatusResponse, error) {
		return w.RuntimeService.PodSandboxStatus(ctx, id, verbose)
	})
}

func (w watchedRuntime) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	return contained(w.calls, w.call(ctx, "ContainerStatus", id, 0), func() (*runtimeapi.ContainerStatusResponse, error) {
		return w.RuntimeService.ContainerStatus(ctx, id, verbose)
	})
}

// WatchImages lists the calls of an image store that take too long, and makes errors of panics, as [WatchRuntime] does.
func WatchImages(service cri.ImageService, calls *foreign.Calls) cri.ImageService {
	return watchedImages{service, calls}
}

type watchedImages struct {
	cri.ImageService
	calls *foreign.Calls
}

func (w watchedImages) call(name, image string) foreign.Call {
	return foreign.Call{Kind: problem.RuntimeCall, Name: name, Object: image, Patience: problem.CallLimit}
}

func (w watchedImages) ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	return contained(w.calls, w.call("ListImages", ""), func() ([]*runtimeapi.Image, error) { return w.ImageService.ListImages(ctx, filter) })
}

func (w watchedImages) ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error) {
	return contained(w.calls, w.call("ImageStatus", image.GetImage()), func() (*runtimeapi.ImageStatusResponse, error) {
		return w.ImageService.ImageStatus(ctx, image, verbose)
	})
}

func (w watchedImages) PullImage(
	ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, sandbox *runtimeapi.PodSandboxConfig,
) (string, error) {
	call := w.call("PullImage", image.GetImage())
	call.Patience, call.UID = problem.PullLimit, types.UID(sandbox.GetMetadata().GetUid())
	return contained(w.calls, call, func() (string, error) { return w.ImageService.PullImage(ctx, image, auth, sandbox) })
}

func (w watchedImages) RemoveImage(ctx context.Context, image *runtimeapi.ImageSpec) error {
	call := w.call("RemoveImage", image.GetImage())
	call.Advice = "look at the container runtime's log; until the call returns no other image is removed"
	return act(w.calls, call, func() error { return w.ImageService.RemoveImage(ctx, image) })
}
