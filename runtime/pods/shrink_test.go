package pods_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// newAbandoning is a world whose runtime forgets a stop whose caller is gone, as
// containerd does.
func newAbandoning(t *testing.T, script func(fake.Launch) fake.Script, opt ...func(*pods.Options)) *world {
	t.Helper()
	w := newWorld(t, nil, opt...)
	w.fake = fake.New(fake.Options{Script: script, AbandonStopOnCancel: true})
	w.restart()
	return w
}

func stubborn(fake.Launch) fake.Script { return fake.Script{IgnoreTERM: true} }

// spec/runtime.md 16.2, 16.6: a kill whose grace shrinks interrupts the one in
// flight at once and gives the container exactly what is left of the new grace;
// the minimum of 2 s counts from the first stop signal.
func TestGraceShrinks(t *testing.T) {
	for _, tc := range []struct {
		name  string
		after time.Duration
		grace int64
		stops []string
		dead  time.Duration
	}{
		{"600 s, then 1 s after 5 s", 5 * second, 1, []string{"app 600 @0s", "app 1 @5s"}, 6 * second},
		{"the first two seconds are granted", second / 2, 1, []string{"app 600 @0s", "app 2 @500ms"}, 5 * second / 2},
		{"one of them is over", second, 1, []string{"app 600 @0s", "app 1 @1s"}, 2 * second},
		{"0 s", 5 * second, 0, []string{"app 600 @0s", "app 1 @5s"}, 6 * second},
		{"more than the minimum", 5 * second, 7, []string{"app 600 @0s", "app 7 @5s"}, 12 * second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newAbandoning(t, stubborn)
				pod := newPod()
				w.syncAll(pod)
				began := time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(tc.after, cancel)
				if err := w.m.KillPod(ctx, pod, w.read(pod), ptr.To[int64](600)); !errors.Is(err, context.Canceled) {
					t.Errorf("the interrupted kill: %v", err)
				}
				if took := time.Since(began) - tc.after; took > 100*time.Millisecond {
					t.Errorf("16.6: interrupted %v late", took)
				}
				if err := w.m.KillPod(t.Context(), pod, w.read(pod), ptr.To(tc.grace)); err != nil {
					t.Error(err)
				}
				if got := w.read(pod).Container("app").FinishedAt.Sub(began); got != tc.dead {
					t.Errorf("dead after %v, want %v", got, tc.dead)
				}
				if got := w.timedStops(began); !slices.Equal(got, tc.stops) {
					t.Errorf("16.2: stops %v, want %v", got, tc.stops)
				}
			})
		})
	}
}

// timedStops is stops with when each was asked for.
func (w *world) timedStops(began time.Time) (out []string) {
	for _, c := range w.fake.Calls(fake.Match{Method: fake.StopContainer}) {
		out = append(out, fmt.Sprintf("%s %d @%v", c.Container, c.Request.(*runtimeapi.StopContainerRequest).Timeout, c.Start.Sub(began)))
	}
	return out
}

// spec/runtime.md 16.2: a stop that did not reach the container was no signal,
// and a container that runs again has its two seconds again.
func TestMinimumCountsFromTheSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newAbandoning(t, stubborn)
		pod := newPod()
		w.syncAll(pod)
		w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.StopContainer}, Times: 1, Effect: fake.Effect{Err: runtime.ErrUnavailable}})
		w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.StopPodSandbox}, Times: 1, Effect: fake.Effect{Err: runtime.ErrUnavailable}})
		if err := w.m.KillPod(t.Context(), pod, nil, ptr.To[int64](1)); !errors.Is(err, runtime.ErrUnavailable) {
			t.Fatal(err)
		}
		pass(9 * second)
		for range 2 {
			if err := w.m.KillPod(t.Context(), pod, nil, ptr.To[int64](1)); err != nil {
				t.Fatal(err)
			}
			w.syncAll(pod)
		}
		if got := w.stops(); !slices.Equal(got, []string{"app 2", "app 2", "app 2"}) {
			t.Errorf("stops %v", got)
		}
	})
}

// spec/runtime.md 15, 15.1: a postStart hook that does not end has failed after
// its bound; a sleep ends when it says.
func TestPostStartBound(t *testing.T) {
	hangs := func(fake.Launch) fake.Script {
		return fake.Script{Exec: func(fake.Exec) fake.ExecResult { return fake.ExecResult{Took: 1000 * time.Hour} }}
	}
	for _, tc := range []struct {
		name    string
		bound   time.Duration
		handler v1.LifecycleHandler
		took    time.Duration
		reason  string
	}{
		{"default", 0, v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"x"}}}, 10 * time.Minute, "PostStartHookError"},
		{"own", time.Minute, v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"x"}}}, time.Minute, "PostStartHookError"},
		{"none", -1, v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"x"}}}, 1000 * time.Hour, ""},
		{"sleep", time.Minute, v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 90}}, 90 * second, ""},
		{"sleep 0", time.Minute, v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 0}}, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, hangs, func(o *pods.Options) { o.PostStartTimeout = tc.bound })
				pod := newPod(func(p *v1.Pod) { p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &tc.handler} })
				began := time.Now()
				r := w.sync(pod)
				if took := time.Since(began); took != tc.took {
					t.Errorf("took %v, want %v", took, tc.took)
				}
				if starts(r)[0].Reason != tc.reason {
					t.Errorf("start %+v", starts(r)[0])
				}
				if failed := tc.reason != ""; failed != strings.HasPrefix(w.state(pod), "app:exited") {
					t.Errorf("15.1: state %s", w.state(pod))
				}
			})
		})
	}
}

// spec/runtime.md 15: a sleep that is cancelled has failed.
func TestSleepCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		pod := newPod(func(p *v1.Pod) {
			p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](10)
			p.Spec.Containers[0].Lifecycle = preStop(v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 60}})
		})
		w.syncAll(pod)
		if err := w.m.KillPod(t.Context(), pod, w.read(pod), nil); err != nil {
			t.Fatal(err)
		}
		if !w.events.has("Warning FailedPreStopHook spec.containers{app}") {
			t.Errorf("15, 15.2: no event in %v", w.events.list())
		}
	})
}
