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

	"github.com/podwright/podwright/internal/proberesult"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
)

// cutWorld runs a pod whose preStop hook takes 10 s, and notes when it ran.
func cutWorld(t *testing.T, hooks *[]string) (*world, *v1.Pod) {
	began := time.Now()
	w := newWorld(t, func(fake.Launch) fake.Script {
		return fake.Script{OnTERM: fake.Exit{After: second}, Exec: func(fake.Exec) fake.ExecResult {
			*hooks = append(*hooks, fmt.Sprint("@", time.Since(began)))
			return fake.ExecResult{Took: 10 * second}
		}}
	})
	pod := newPod(func(p *v1.Pod) {
		p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
		p.Spec.Containers[0].Lifecycle = preStop(v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"bye"}}})
	})
	w.syncAll(pod)
	return w, pod
}

// spec/runtime.md 15.3: a deletion that ends a liveness kill in the middle of its preStop
// hook runs the hook again and signals the container after it.
func TestCutPreStopRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hooks []string
		w, pod := cutWorld(t, &hooks)
		w.opts.Probes = probeSource{
			by: probes{"app": {proberesult.Unknown, proberesult.Failure}}, view: func() *runtime.PodStatus { return w.read(pod) },
		}
		w.restart()
		pod.Spec.Containers[0].LivenessProbe = &v1.Probe{}
		ctx, cancel := context.WithTimeout(t.Context(), 3*second)
		defer cancel()
		if r := w.m.SyncPod(ctx, pod, w.read(pod)); r.Err == nil {
			t.Fatal("the kill was not cut short")
		}
		deleted := time.Now()
		if err := w.m.KillPod(t.Context(), pod, w.read(pod), ptr.To[int64](30)); err != nil {
			t.Fatal(err)
		}
		if want := []string{"@0s", "@3s"}; !slices.Equal(hooks, want) {
			t.Errorf("15.3: hooks %v, want %v", hooks, want)
		}
		if got := w.stops(); !slices.Equal(got, []string{"app 20"}) {
			t.Errorf("15.3: stops %v", got)
		}
		if took := time.Since(deleted); took != 11*second {
			t.Errorf("15.3: stopped %v after the deletion", took)
		}
	})
}

// spec/runtime.md 15.3, 16.6: a second kill waits for the hook that the first one runs, as
// long as its own grace lasts, and does not run it again.
func TestSecondKillWaitsForTheHook(t *testing.T) {
	for name, tc := range map[string]struct {
		grace int64
		want  string
	}{
		"the hook ends first":  {20, "app 14"},
		"the grace ends first": {4, "app 2"},
		"no grace":             {0, "app 2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var hooks []string
				w, pod := cutWorld(t, &hooks)
				status := w.read(pod)
				var wg sync.WaitGroup
				wg.Go(func() { _ = w.m.KillPod(t.Context(), pod, status, ptr.To[int64](600)) })
				pass(4 * second)
				if err := w.m.KillPod(t.Context(), pod, status, ptr.To(tc.grace)); err != nil {
					t.Error(err)
				}
				wg.Wait()
				if got := w.stops(); !slices.Contains(got, tc.want) || len(hooks) != 1 {
					t.Errorf("stops %v, want %s; hooks %v", got, tc.want, hooks)
				}
			})
		})
	}
}

// spec/runtime.md 15.3: if the first kill is given up, the second runs the hook with what
// is left of its own grace.
func TestSecondKillTakesTheHookOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hooks []string
		w, pod := cutWorld(t, &hooks)
		status := w.read(pod)
		ctx, cancel := context.WithTimeout(t.Context(), 6*second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() { _ = w.m.KillPod(ctx, pod, status, ptr.To[int64](600)) })
		pass(4 * second)
		if err := w.m.KillPod(t.Context(), pod, status, ptr.To[int64](30)); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if want := []string{"@0s", "@6s"}; !slices.Equal(hooks, want) {
			t.Errorf("hooks %v, want %v", hooks, want)
		}
		if got := w.stops(); !slices.Equal(got, []string{"app 18"}) { // 4 s to 16 s
			t.Errorf("stops %v", got)
		}
	})
}

// spec/runtime.md 15.3: a hook during which the runtime went down may still run, and does not run again; one
// that could not be sent to the runtime does.
func TestHookOfALostRuntimeRunsOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		down time.Duration
		want []string
	}{
		"down during the hook": {5 * second, []string{"@0s"}},
		"down before the hook": {0, []string{"@20s"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var hooks []string
				w, pod := cutWorld(t, &hooks)
				status := w.read(pod)
				var wg sync.WaitGroup
				if tc.down == 0 {
					w.fake.SetDown(true)
				}
				wg.Go(func() { _ = w.m.KillPod(t.Context(), pod, status, nil) })
				pass(tc.down)
				w.fake.SetDown(true)
				wg.Wait()
				pass(20*second - tc.down)
				w.fake.SetDown(false)
				if err := w.m.KillPod(t.Context(), pod, status, nil); err != nil {
					t.Error(err)
				}
				if !slices.Equal(hooks, tc.want) {
					t.Errorf("hooks %v, want %v", hooks, tc.want)
				}
			})
		})
	}
}

// spec/runtime.md 15.1: a postStart hook that is cut off with its step, as by the end of the agent, has not
// failed: nothing stops the container for it, and no event says so.
func TestCutPostStartHasNotFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := 0
		w := newWorld(t, func(fake.Launch) fake.Script {
			return fake.Script{Exec: func(fake.Exec) fake.ExecResult {
				ran++
				return fake.ExecResult{Took: 10 * second}
			}}
		})
		pod := newPod(func(p *v1.Pod) {
			command := v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"hook"}}}
			p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
			p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &command, PreStop: &command}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 3*second)
		defer cancel()
		if r := w.m.SyncPod(ctx, pod, w.read(pod)); r.Err == nil {
			t.Fatal("the step was not cut short")
		}
		synctest.Wait()
		for _, event := range []string{"Normal Killing", "Warning FailedPostStartHook", "Warning FailedPreStopHook"} {
			if w.events.has(event) {
				t.Errorf("events %v", w.events.list())
			}
		}
		if got := w.stops(); len(got) != 0 || ran != 1 {
			t.Errorf("stops %v, %d hooks ran", got, ran)
		}
	})
}
