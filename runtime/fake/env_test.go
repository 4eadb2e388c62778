package fake_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
)

const (
	uid   types.UID = "uid-1"
	image string    = "example.com/app:v1"
)

// start is the moment the fake clock of the tests begins at.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// rig is a fake on a stepped clock.
type rig struct {
	*testing.T
	*fake.Runtime
	clock *testclock.FakeClock
	ctx   context.Context
}

func newRig(t *testing.T, options fake.Options) *rig {
	c := testclock.NewFakeClock(start)
	options.Clock = c
	options.Images = append(options.Images, fake.Image{Ref: image})
	return &rig{T: t, Runtime: fake.New(options), clock: c, ctx: t.Context()}
}

// scripted makes every container follow s.
func scripted(s fake.Script) fake.Options {
	return fake.Options{Script: func(fake.Launch) fake.Script { return s }}
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func sandboxConfig(attempt uint32) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "pod", Namespace: "ns", Uid: string(uid), Attempt: attempt},
		Labels: map[string]string{
			runtime.LabelPodUID: string(uid), runtime.LabelPodName: "pod", runtime.LabelPodNamespace: "ns",
		},
	}
}

func containerConfig(name string, attempt uint32) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: attempt},
		Image:    &runtimeapi.ImageSpec{Image: image},
	}
}

func (r *rig) sandbox() string {
	r.Helper()
	id, err := r.RunPodSandbox(r.ctx, sandboxConfig(0), "")
	r.must(err)
	return id
}

// run creates and starts a container.
func (r *rig) run(sandboxID, name string, attempt uint32) string {
	r.Helper()
	id, err := r.CreateContainer(r.ctx, sandboxID, containerConfig(name, attempt), sandboxConfig(0))
	r.must(err)
	r.must(r.StartContainer(r.ctx, id))
	return id
}

func (r *rig) status(id string) *runtimeapi.ContainerStatus {
	r.Helper()
	response, err := r.ContainerStatus(r.ctx, id, false)
	r.must(err)
	return response.GetStatus()
}

// wantExit checks that the container exited with code, d after the start of the
// clock.
func (r *rig) wantExit(id string, code int32, d time.Duration) {
	r.Helper()
	st := r.status(id)
	if st.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED || st.GetExitCode() != code {
		r.Fatalf("%v with code %d, want EXITED with %d", st.GetState(), st.GetExitCode(), code)
	}
	if got := time.Unix(0, st.GetFinishedAt()).Sub(start).Round(time.Microsecond); got != d {
		r.Errorf("finished at %v, want %v", got, d)
	}
}

// async runs call and waits until it waits on the clock.
func (r *rig) async(call func() error) <-chan error {
	r.Helper()
	waiting := r.clock.Waiters()
	done := make(chan error, 1)
	go func() { done <- call() }()
	for r.clock.Waiters() == waiting {
		select {
		case err := <-done:
			done <- err
			return done
		default:
			goruntime.Gosched()
		}
	}
	return done
}

// waitForWaiters waits until n timers of the clock are running.
func (r *rig) waitForWaiters(n int) {
	r.Helper()
	for r.clock.Waiters() < n {
		if r.ctx.Err() != nil {
			r.Fatal(r.ctx.Err())
		}
		goruntime.Gosched()
	}
}

func (r *rig) wantClass(what string, err, class error) {
	r.Helper()
	if !errors.Is(err, class) {
		r.Errorf("%s: error %v, want class %v", what, err, class)
	}
}
