package pods_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// stops returns what StopContainer was asked for: "name timeout".
func (w *world) stops() []string {
	var out []string
	for _, c := range w.fake.Calls(fake.Match{Method: fake.StopContainer}) {
		out = append(out, fmt.Sprint(c.Container, " ", c.Request.(*runtimeapi.StopContainerRequest).Timeout))
	}
	return out
}

func preStop(h v1.LifecycleHandler) *v1.Lifecycle { return &v1.Lifecycle{PreStop: &h} }

// spec/runtime.md 16.1, 16.2, 15.2: which grace period reaches StopContainer.
func TestKillGrace(t *testing.T) {
	sleep := func(seconds int64) *v1.Lifecycle {
		return preStop(v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: seconds}})
	}
	for _, tc := range []struct {
		name     string
		spec     *int64
		deletion *int64
		override *int64
		hook     *v1.Lifecycle
		want     string
		took     time.Duration
	}{
		{name: "16.1 nothing set", want: "app 2"},
		{name: "16.1 spec", spec: ptr.To[int64](30), want: "app 30"},
		{name: "16.1 deletion wins over spec", spec: ptr.To[int64](30), deletion: ptr.To[int64](9), want: "app 9"},
		{name: "16.1 override wins", spec: ptr.To[int64](30), deletion: ptr.To[int64](9), override: ptr.To[int64](5), want: "app 5"},
		{name: "16.2 at least 2", override: ptr.To[int64](1), want: "app 2"},
		{name: "edge 12: grace 0 runs no hook", override: ptr.To[int64](0), hook: sleep(50), want: "app 2"},
		{name: "15.2 the hook counts", spec: ptr.To[int64](30), hook: sleep(12), want: "app 18", took: 12 * second},
		{name: "15.2 the hook is cut", spec: ptr.To[int64](10), hook: sleep(50), want: "app 2", took: 10 * second},
		{name: "15.2 more seconds than a duration holds", spec: ptr.To[int64](10_000_000_000), hook: sleep(12), want: "app 9999999988", took: 12 * second},
		{name: "edge 11: grace 1, hook 5", override: ptr.To[int64](1), hook: sleep(5), want: "app 2", took: second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				pod := newPod(func(p *v1.Pod) {
					p.Spec.TerminationGracePeriodSeconds = tc.spec
					p.Spec.Containers[0].Lifecycle = tc.hook
				})
				w.syncAll(pod)
				pod.DeletionGracePeriodSeconds = tc.deletion
				began := time.Now()
				if err := w.m.KillPod(t.Context(), pod, w.read(pod), tc.override); err != nil {
					t.Fatal(err)
				}
				if got := w.stops(); len(got) != 1 || got[0] != tc.want {
					t.Errorf("stops %v, want %s", got, tc.want)
				}
				if took := time.Since(began); took != tc.took {
					t.Errorf("took %v, want %v", took, tc.took)
				}
				if !w.events.has("Normal Killing spec.containers{app}") {
					t.Errorf("16.3: no Killing event in %v", w.events.list())
				}
				status := w.read(pod)
				if status.ContainersRunning() || status.Sandboxes[0].State == runtime.Running {
					t.Error("16.5: something still runs")
				}
			})
		})
	}
}

// spec/runtime.md 15.2: a failing hook is reported and the kill goes on.
func TestPreStopFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(fake.Launch) fake.Script {
			return fake.Script{Exec: func(e fake.Exec) fake.ExecResult { return fake.ExecResult{Took: 3 * second, Code: 7} }}
		})
		pod := newPod(func(p *v1.Pod) {
			p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
			p.Spec.Containers[0].Lifecycle = preStop(v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"bye"}}})
		})
		w.syncAll(pod)
		if err := w.m.KillPod(t.Context(), pod, nil, nil); err != nil {
			t.Fatal(err)
		}
		if got := w.stops(); !slices.Equal(got, []string{"app 27"}) {
			t.Errorf("stops %v", got)
		}
		if !w.events.has("Warning FailedPreStopHook spec.containers{app}") {
			t.Errorf("no event in %v", w.events.list())
		}
	})
}

// spec/runtime.md 16.4: app containers stop at once, sidecars after them in
// reverse order, all within one grace period.
func TestSidecarOrder(t *testing.T) {
	for _, tc := range []struct {
		name string
		term time.Duration // how long each takes to stop after SIGTERM
		app  time.Duration
		want []string
	}{
		{name: "quick", term: 4 * second, app: 4 * second, want: []string{"app 30 @0s", "s2 26 @4s", "s1 22 @8s"}},
		// Edge 14: the app takes the whole grace; the sidecars get 2 s together.
		{name: "stubborn app", term: time.Hour, app: time.Hour, want: []string{"app 30 @0s", "s1 2 @30s", "s2 2 @30s"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, func(l fake.Launch) fake.Script {
					if l.Container == "app" {
						return fake.Script{OnTERM: fake.Exit{After: tc.app}}
					}
					return fake.Script{OnTERM: fake.Exit{After: tc.term}}
				})
				pod := newPod(func(p *v1.Pod) {
					p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
					p.Spec.InitContainers = []v1.Container{sidecar("s1"), sidecar("s2")}
				})
				for range 4 {
					w.syncAll(pod)
				}
				w.wantState(pod, "s1:running s2:running app:running")
				began := time.Now()
				if err := w.m.KillPod(t.Context(), pod, w.read(pod), nil); err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, c := range w.fake.Calls(fake.Match{Method: fake.StopContainer}) {
					got = append(got, fmt.Sprintf("%s %d @%v", c.Container,
						c.Request.(*runtimeapi.StopContainerRequest).Timeout, c.Start.Sub(began)))
				}
				slices.Sort(got[1:])
				want := slices.Clone(tc.want)
				slices.Sort(want[1:])
				if !slices.Equal(got, want) {
					t.Errorf("stops %v, want %v", got, want)
				}
			})
		})
	}
}

// spec/runtime.md 16.6: a shorter grace issues a new stop at once, without
// waiting for the old one, and the hook does not run again.
func TestShorterGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		execs := 0
		w := newWorld(t, func(fake.Launch) fake.Script {
			return fake.Script{
				IgnoreTERM: true,
				Exec:       func(fake.Exec) fake.ExecResult { execs++; return fake.ExecResult{Took: second} },
			}
		})
		pod := newPod(func(p *v1.Pod) {
			p.Spec.Containers[0].Lifecycle = preStop(v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"bye"}}})
		})
		w.syncAll(pod)
		status := w.read(pod)
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		wg.Go(func() {
			// It ends with the container.
			if err := w.m.KillPod(ctx, pod, status, ptr.To[int64](600)); err != nil {
				t.Errorf("the old kill: %v", err)
			}
		})
		pass(5 * second)
		began := time.Now()
		// The old call is still in flight.
		if err := w.m.KillPod(t.Context(), pod, status, ptr.To[int64](3)); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 3*second {
			t.Errorf("killed after %v, want 3s", took)
		}
		wg.Wait()
		if got := w.stops(); !slices.Equal(got, []string{"app 599", "app 3"}) {
			t.Errorf("stops %v", got)
		}
		if execs != 1 {
			t.Errorf("the hook ran %d times", execs)
		}
	})
}

// hookWorld is a world of containers that take a second to stop, and that keeps the commands of their hooks.
func hookWorld(t *testing.T, hooks *[]string) *world {
	return newWorld(t, func(fake.Launch) fake.Script {
		return fake.Script{
			OnTERM: fake.Exit{After: second},
			Exec: func(e fake.Exec) fake.ExecResult {
				*hooks = append(*hooks, strings.Join(e.Cmd, " "))
				return fake.ExecResult{}
			},
		}
	})
}

// spec/runtime.md 2.6, 16.7: a pod without manifest is stopped as its labels and
// annotations say.
func TestOrphanKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hooks []string
		w := hookWorld(t, &hooks)
		pod := newPod(func(p *v1.Pod) {
			p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](25)
			p.Spec.InitContainers = []v1.Container{sidecar("side")}
			p.Spec.Containers[0].Lifecycle = preStop(v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"good", "bye"}}})
		})
		for range 3 {
			w.syncAll(pod)
		}
		w.restart()
		if err := w.m.KillPod(t.Context(), nil, w.read(pod), nil); err != nil {
			t.Fatal(err)
		}
		// The sidecar is known to be one and waits for the app.
		if got := w.stops(); !slices.Equal(got, []string{"app 25", "side 24"}) {
			t.Errorf("stops %v", got)
		}
		if !slices.Equal(hooks, []string{"good bye"}) {
			t.Errorf("hooks %v", hooks)
		}

		other := newPod(func(p *v1.Pod) { p.UID = "uid-2" })
		w.syncAll(other)
		listed, err := w.view.ListPod(t.Context(), other.UID)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.m.KillRuntimePod(t.Context(), listed, nil); err != nil {
			t.Fatal(err)
		}
		if got := w.stops(); got[len(got)-1] != "app 2" {
			t.Errorf("16.7: stops %v", got)
		}
	})
}

// spec/runtime.md 16.3: a container that is no longer in the spec is stopped
// nevertheless.
func TestKillContainerNotInSpec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		pod := newPod()
		w.syncAll(pod)
		pod.Spec.Containers = []v1.Container{container("other")}
		if err := w.m.KillPod(t.Context(), pod, w.read(pod), nil); err != nil {
			t.Fatal(err)
		}
		if w.read(pod).ContainersRunning() {
			t.Error("it still runs")
		}
	})
}

// spec/runtime.md 16.5, 16.8: sandboxes are stopped although a container was not,
// and what still runs is an error.
func TestKillFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		pod := newPod()
		w.syncAll(pod)
		w.fake.Inject(fake.Fault{
			Match: fake.Match{Method: fake.StopContainer}, Times: 1,
			Effect: fake.Effect{Err: runtime.ErrUnavailable},
		})
		if err := w.m.KillPod(t.Context(), pod, nil, nil); !errors.Is(err, runtime.ErrUnavailable) {
			t.Errorf("err %v", err)
		}
		if w.fake.CallCount(fake.StopPodSandbox) != 1 {
			t.Error("16.5: the sandbox was not stopped")
		}
		if !w.events.has("Warning FailedKillPod") {
			t.Error("22.2: no event")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		pod := newPod()
		w.syncAll(pod)
		stale := w.read(pod)
		stale.Sandboxes, stale.Containers = nil, nil
		if err := w.m.KillPod(t.Context(), pod, stale, nil); err == nil || !strings.Contains(err.Error(), "container app") {
			t.Errorf("16.8: a stale view hides a running container: %v", err)
		}
	})
}

// late is a runtime whose list shows a sandbox as ready for a time after it was stopped.
type late struct {
	*fake.Runtime
	lag     time.Duration
	stopped time.Time
}

func (l *late) StopPodSandbox(ctx context.Context, id string) error {
	l.stopped = time.Now()
	return l.Runtime.StopPodSandbox(ctx, id)
}

func (l *late) ListPodSandbox(ctx context.Context, f *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	list, err := l.Runtime.ListPodSandbox(ctx, f)
	if !l.stopped.IsZero() && time.Since(l.stopped) < l.lag {
		for _, s := range list {
			s.State = runtimeapi.PodSandboxState_SANDBOX_READY
		}
	}
	return list, err
}

// spec/runtime.md 16.8: a runtime that records the end of a sandbox some moments after
// its answer is given this time, and no more.
func TestKillWaitsForTheRuntimeToNoteTheEnd(t *testing.T) {
	for lag, ok := range map[time.Duration]bool{time.Millisecond: true, 200 * time.Millisecond: true, 2 * second: false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			pod := newPod()
			w.syncAll(pod)
			rt := &late{Runtime: w.fake, lag: lag}
			m, err := pods.New(rt, w.fake, w.opts)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			err = m.KillPod(t.Context(), pod, w.read(pod), nil)
			if (err == nil) != ok || time.Since(began) > 250*time.Millisecond {
				t.Errorf("the runtime is %v late: err %v after %v", lag, err, time.Since(began))
			}
		})
	}
}

// readerFunc is a pods.Reader.
type readerFunc func() *runtime.PodStatus

func (f readerFunc) Read(ctx context.Context, uid types.UID) (*runtime.PodStatus, error) {
	return f(), nil
}

func TestKillReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		var after runtime.PodStatus
		w := newWorld(t, nil, func(o *pods.Options) {
			o.Reader = readerFunc(func() *runtime.PodStatus { reads++; return &after })
		})
		pod := newPod()
		w.syncAll(pod)
		after = *w.read(pod)
		if err := w.m.KillPod(t.Context(), pod, w.read(pod), nil); err == nil || reads != 4 {
			t.Errorf("16.8: err %v after %d reads", err, reads)
		}
		after = *w.read(pod)
		if err := w.m.KillPod(t.Context(), pod, w.read(pod), nil); err != nil {
			t.Error(err)
		}
	})
}

// A kill of what is gone succeeds: every step may be repeated.
func TestKillIdempotent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		pod := newPod()
		w.syncAll(pod)
		status := w.read(pod)
		for range 2 {
			if err := w.m.KillPod(t.Context(), pod, status, nil); err != nil {
				t.Error(err)
			}
		}
		if err := w.m.RemovePod(t.Context(), pod.UID); err != nil {
			t.Error(err)
		}
		if err := w.m.KillPod(t.Context(), pod, status, nil); err != nil {
			t.Error(err)
		}
		if err := w.m.KillPod(t.Context(), nil, nil, nil); err == nil {
			t.Error("a kill without a pod succeeds")
		}
	})
}
