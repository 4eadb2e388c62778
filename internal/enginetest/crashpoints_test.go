package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
)

var errDead = errors.New("the agent is dead")

// fate numbers the points that one agent passes, before and after each operation on the disk,
// runtime call and message to a sink, and ends the agent at one of them: from then on nothing that
// the agent does has an effect, and its calls get no answer.
type fate struct {
	// end ends the calls in flight, as a broken connection does.
	end    context.Context
	cancel context.CancelFunc
	killed chan struct{} // closed at the point

	mu     sync.Mutex
	at     int // 0: never
	dead   bool
	points []string // their names, in the order passed
}

func newFate(ctx context.Context, at int) *fate {
	f := &fate{at: at, killed: make(chan struct{})}
	f.end, f.cancel = context.WithCancel(ctx)
	return f
}

// pass is called at each point.
func (f *fate) pass(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return errDead
	}
	f.points = append(f.points, name)
	if len(f.points) == f.at {
		f.dead = true
		close(f.killed)
		f.cancel()
		return errDead
	}
	return nil
}

func (f *fate) isDead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

// disk returns the agent's disk.
func (f *fate) disk(d *checkpointtest.Disk) *checkpointtest.Points {
	name := func(when string, op checkpointtest.Op) string { return when + " " + op.Kind + " " + op.Name }
	return &checkpointtest.Points{
		FS:     d,
		Before: func(op checkpointtest.Op) error { return f.pass(name("before", op)) },
		After:  func(op checkpointtest.Op) error { return f.pass(name("after", op)) },
	}
}

// sink is the agent's way to a sink. What a dead agent sends does not arrive, and the agent does
// not notice.
func (f *fate) sink(to status.StatusSink) status.StatusSink {
	return status.SinkFunc(func(ctx context.Context, u status.Update) (status.StoreResult, error) {
		name := "status " + string(u.UID)
		if f.pass("before "+name) != nil {
			return status.Stored, nil
		}
		result, err := to.Store(ctx, u)
		_ = f.pass("after " + name)
		return result, err
	})
}

// silentIn drops the events of the dead.
type silentIn struct {
	*events
	fate *fate
}

func (s silentIn) Eventf(object apiruntime.Object, kind, reason, format string, args ...any) {
	if !s.fate.isDead() {
		s.events.Eventf(object, kind, reason, format, args...)
	}
}

// mortal is the runtime as one agent reaches it.
type mortal struct {
	*fake.Runtime
	fate *fate
}

// reach makes a call between two points.
func reach[T any](ctx context.Context, f *fate, method fake.Method, call func(context.Context) (T, error)) (T, error) {
	var none T
	if err := f.pass("before " + string(method)); err != nil {
		return none, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.end, cancel)()
	out, err := call(ctx)
	if err := f.pass("after " + string(method)); err != nil {
		return none, err
	}
	return out, err
}

// tell is reach for a call without an answer.
func tell(ctx context.Context, f *fate, method fake.Method, call func(context.Context) error) error {
	_, err := reach(ctx, f, method, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
	return err
}

func (m mortal) Version(ctx context.Context, version string) (*runtimeapi.VersionResponse, error) {
	return reach(ctx, m.fate, fake.Version, func(ctx context.Context) (*runtimeapi.VersionResponse, error) {
		return m.Runtime.Version(ctx, version)
	})
}

func (m mortal) Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error) {
	return reach(ctx, m.fate, fake.Status, func(ctx context.Context) (*runtimeapi.StatusResponse, error) {
		return m.Runtime.Status(ctx, verbose)
	})
}

func (m mortal) ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	return reach(ctx, m.fate, fake.ListPodSandbox, func(ctx context.Context) ([]*runtimeapi.PodSandbox, error) {
		return m.Runtime.ListPodSandbox(ctx, filter)
	})
}

func (m mortal) ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	return reach(ctx, m.fate, fake.ListContainers, func(ctx context.Context) ([]*runtimeapi.Container, error) {
		return m.Runtime.ListContainers(ctx, filter)
	})
}

func (m mortal) PodSandboxStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	return reach(ctx, m.fate, fake.PodSandboxStatus, func(ctx context.Context) (*runtimeapi.PodSandboxStatusResponse, error) {
		return m.Runtime.PodSandboxStatus(ctx, id, verbose)
	})
}

func (m mortal) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	return reach(ctx, m.fate, fake.ContainerStatus, func(ctx context.Context) (*runtimeapi.ContainerStatusResponse, error) {
		return m.Runtime.ContainerStatus(ctx, id, verbose)
	})
}

func (m mortal) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	return reach(ctx, m.fate, fake.RunPodSandbox, func(ctx context.Context) (string, error) {
		return m.Runtime.RunPodSandbox(ctx, config, handler)
	})
}

func (m mortal) StopPodSandbox(ctx context.Context, id string) error {
	return tell(ctx, m.fate, fake.StopPodSandbox, func(ctx context.Context) error { return m.Runtime.StopPodSandbox(ctx, id) })
}

func (m mortal) RemovePodSandbox(ctx context.Context, id string) error {
	return tell(ctx, m.fate, fake.RemovePodSandbox, func(ctx context.Context) error { return m.Runtime.RemovePodSandbox(ctx, id) })
}

func (m mortal) CreateContainer(ctx context.Context, sandbox string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	return reach(ctx, m.fate, fake.CreateContainer, func(ctx context.Context) (string, error) {
		return m.Runtime.CreateContainer(ctx, sandbox, config, sandboxConfig)
	})
}

func (m mortal) StartContainer(ctx context.Context, id string) error {
	return tell(ctx, m.fate, fake.StartContainer, func(ctx context.Context) error { return m.Runtime.StartContainer(ctx, id) })
}

func (m mortal) StopContainer(ctx context.Context, id string, timeout int64) error {
	return tell(ctx, m.fate, fake.StopContainer, func(ctx context.Context) error { return m.Runtime.StopContainer(ctx, id, timeout) })
}

func (m mortal) RemoveContainer(ctx context.Context, id string) error {
	return tell(ctx, m.fate, fake.RemoveContainer, func(ctx context.Context) error { return m.Runtime.RemoveContainer(ctx, id) })
}

func (m mortal) ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error) {
	err = tell(ctx, m.fate, fake.ExecSync, func(ctx context.Context) (err error) {
		stdout, stderr, err = m.Runtime.ExecSync(ctx, id, cmd, timeout)
		return err
	})
	return stdout, stderr, err
}

func (m mortal) ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	return reach(ctx, m.fate, fake.ListImages, func(ctx context.Context) ([]*runtimeapi.Image, error) {
		return m.Runtime.ListImages(ctx, filter)
	})
}

func (m mortal) ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error) {
	return reach(ctx, m.fate, fake.ImageStatus, func(ctx context.Context) (*runtimeapi.ImageStatusResponse, error) {
		return m.Runtime.ImageStatus(ctx, image, verbose)
	})
}

func (m mortal) PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, config *runtimeapi.PodSandboxConfig) (string, error) {
	return reach(ctx, m.fate, fake.PullImage, func(ctx context.Context) (string, error) {
		return m.Runtime.PullImage(ctx, image, auth, config)
	})
}

// GetContainerEvents ends with the agent; its events are only hints.
func (m mortal) GetContainerEvents(ctx context.Context, to chan *runtimeapi.ContainerEventResponse, up func(runtimeapi.RuntimeService_GetContainerEventsClient)) error {
	if m.fate.isDead() {
		return errDead
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.fate.end, cancel)()
	return m.Runtime.GetContainerEvents(ctx, to, up)
}

// killedBy names the point at which the agent was killed, in messages.
func (f *fate) killedBy() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("point %d, %s", f.at, f.points[f.at-1])
}
