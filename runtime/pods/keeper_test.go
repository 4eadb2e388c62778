package pods_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// sidecarWorld runs a pod whose sidecar exits 3 s after each start but the first,
// which the test ends, and whose app takes 20 s to stop.
func sidecarWorld(t *testing.T, hooks *[]string, opt ...func(*pods.Options)) (*world, *v1.Pod) {
	w := newWorld(t, func(l fake.Launch) fake.Script {
		script := fake.Script{OnTERM: fake.Exit{After: 20 * second}, Exec: func(e fake.Exec) fake.ExecResult {
			*hooks = append(*hooks, e.Container+" "+e.Cmd[0])
			return fake.ExecResult{}
		}}
		if l.Container == "side" && l.Number > 1 {
			script.Exit = &fake.Exit{After: 3 * second, Code: 1}
		}
		return script
	}, append([]func(*pods.Options){func(o *pods.Options) { o.KeepSidecars = true }}, opt...)...)
	pod := newPod(func(p *v1.Pod) {
		side := sidecar("side")
		side.Lifecycle = &v1.Lifecycle{
			PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"post"}}},
			PreStop:   &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"pre"}}},
		}
		p.Spec.InitContainers = []v1.Container{side}
		p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
	})
	for range 3 {
		w.syncAll(pod)
	}
	w.wantState(pod, "side:running app:running")
	return w, pod
}

// killWhile kills the pod, and its sidecar exits after 2 s.
func killWhile(w *world, pod *v1.Pod, status *runtime.PodStatus, override *int64) (starts []string) {
	w.t.Helper()
	began := time.Now()
	var wg sync.WaitGroup
	wg.Go(func() {
		pass(2*second + second/2)
		if err := w.fake.Exit(pod.UID, "side", fake.Exit{Code: 1}); err != nil {
			w.t.Error(err)
		}
	})
	before := len(w.fake.Calls(fake.Match{Method: fake.StartContainer}))
	if err := w.m.KillPod(w.t.Context(), pod, status, override); err != nil {
		w.t.Error(err)
	}
	wg.Wait()
	for _, c := range w.fake.Calls(fake.Match{Method: fake.StartContainer})[before:] {
		starts = append(starts, fmt.Sprintf("%s @%v", c.Container, c.Start.Sub(began)))
	}
	return starts
}

// spec/runtime.md 16.9: a sidecar that exits while its pod ends is started again
// until its turn has come, without hooks and with its back-off, and then killed at
// once.
func TestSidecarKeptUp(t *testing.T) {
	for name, given := range map[string]bool{"status given": true, "status read": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var hooks []string
				w, pod := sidecarWorld(t, &hooks)
				var status *runtime.PodStatus
				if given {
					status = w.read(pod)
				}
				// It exits at 2.5 s, runs from 3 to 6 s, and after 10 s more till the end.
				if got, want := killWhile(w, pod, status, nil), []string{"side @3s", "side @16s"}; !slices.Equal(got, want) {
					t.Errorf("16.9: starts %v, want %v", got, want)
				}
				if got, want := hooks, []string{"side post", "side pre"}; !slices.Equal(got, want) {
					t.Errorf("16.9: hooks %v, want %v", got, want)
				}
				if got := w.read(pod).Container("side"); got.RestartCount != 2 || got.State != runtime.Exited {
					t.Errorf("16.9: restart count %d, %s", got.RestartCount, got.State)
				}
				if err := w.fake.Doubled(); err != nil {
					t.Error(err)
				}
				for _, s := range w.stops() {
					if s != "app 30" && s != "side 10" && s != "side 0" {
						t.Errorf("16.9: stop %s", s)
					}
				}
			})
		})
	}
}

// spec/runtime.md 16.9: an instance that was started again gets SIGKILL.
func TestKeptSidecarIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hooks []string
		w, pod := sidecarWorld(t, &hooks)
		// The app is gone at 4 s, the second instance would run till 6 s.
		time.AfterFunc(4*second, func() {
			if err := w.fake.Exit(pod.UID, "app", fake.Exit{}); err != nil {
				t.Error(err)
			}
		})
		if got := killWhile(w, pod, w.read(pod), nil); !slices.Equal(got, []string{"side @3s"}) {
			t.Errorf("starts %v", got)
		}
		if got := w.stops(); !slices.Equal(got, []string{"app 30", "side 0"}) {
			t.Errorf("16.9: stops %v", got)
		}
	})
}

// spec/runtime.md 16.9: not with a grace of a second or less, not without the option, not for an orphan, and not once another kill has begun.
func TestSidecarNotKeptUp(t *testing.T) {
	for name, tc := range map[string]struct {
		opt      func(*pods.Options)
		override *int64
		orphan   bool
	}{
		"default":   {opt: func(o *pods.Options) { o.KeepSidecars = false }},
		"grace 1 s": {override: ptr.To[int64](1)},
		"orphan":    {orphan: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var hooks []string
				opt := []func(*pods.Options){}
				if tc.opt != nil {
					opt = append(opt, tc.opt)
				}
				w, pod := sidecarWorld(t, &hooks, opt...)
				status, killed := w.read(pod), pod
				if tc.orphan {
					killed = nil
				}
				before := w.fake.CallCount(fake.StartContainer)
				time.AfterFunc(second/2, func() { _ = w.fake.Exit(pod.UID, "side", fake.Exit{}) })
				if err := w.m.KillPod(t.Context(), killed, status, tc.override); err != nil {
					t.Error(err)
				}
				if n := w.fake.CallCount(fake.StartContainer) - before; n != 0 {
					t.Errorf("16.9: %d starts", n)
				}
			})
		})
	}
	t.Run("a later kill", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			// The sidecar ends at once when told to, long before the app.
			w := newWorld(t, func(l fake.Launch) fake.Script { return fake.Script{IgnoreTERM: l.Container == "app"} },
				func(o *pods.Options) { o.KeepSidecars = true })
			pod := newPod(func(p *v1.Pod) { p.Spec.InitContainers = []v1.Container{sidecar("side")} })
			for range 3 {
				w.syncAll(pod)
			}
			status := w.read(pod)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var wg sync.WaitGroup
			wg.Go(func() { _ = w.m.KillPod(ctx, pod, status, ptr.To[int64](60)) })
			pass(second / 2)
			before := w.fake.CallCount(fake.StartContainer)
			if err := w.m.KillPod(t.Context(), pod, status, ptr.To[int64](0)); err != nil {
				t.Error(err)
			}
			wg.Wait()
			if n := w.fake.CallCount(fake.StartContainer) - before; n != 0 {
				t.Errorf("16.6, 16.9: %d starts", n)
			}
			if w.read(pod).ContainersRunning() {
				t.Error("something runs")
			}
		})
	})
}
