package podworkers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/internal/machine"
	"github.com/podwright/podwright/runtime"
)

// patient is a syncer whose setup waits for its cancellation, and whose
// terminating call takes 5 s, cancelled or not if stubborn.
func patient(l *log, stubborn bool) podworkers.PodSyncerFuncs {
	syncer := logging(l)
	syncer.Sync = func(ctx context.Context, _ podworkers.UpdateType, pod, _ *v1.Pod, _ *runtime.PodStatus) (podworkers.SyncResult, error) {
		err := untilCancelled(ctx)
		l.add("setup %s %v", pod.UID, err)
		return podworkers.SyncResult{}, err
	}
	syncer.Terminating = func(ctx context.Context, pod *v1.Pod, _ *runtime.PodStatus, _ *int64, _ podworkers.PodStatusFunc) error {
		if stubborn {
			pass(5 * time.Second)
		} else {
			select {
			case <-ctx.Done():
				l.add("terminating %s %v", pod.UID, context.Cause(ctx))
				return context.Cause(ctx)
			case <-time.After(5 * time.Second):
			}
		}
		l.add("terminating %s", pod.UID)
		return nil
	}
	return syncer
}

// outcome says how a completion ended.
type outcome struct {
	done   chan struct{}
	result machine.KillOutcome
}

func killing(w *podworkers.Workers, pod *v1.Pod) *outcome {
	o := &outcome{done: make(chan struct{})}
	w.UpdatePod(kill(pod, podworkers.KillOptions{Completed: o.done}.Of(&o.result)))
	return o
}

func (o *outcome) expect(t *testing.T, want machine.KillOutcome) {
	t.Helper()
	select {
	case <-o.done:
		if o.result != want {
			t.Errorf("completion: %v, want %v", o.result, want)
		}
	default:
		t.Error("the completion is open")
	}
}

// L9, Q6, edge case 32: the end of Run's context detaches.
func TestDetach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		syncer := patient(&l, false)
		terminate := syncer.Terminating
		syncer.Terminating = func(ctx context.Context, pod *v1.Pod, view *runtime.PodStatus, grace *int64, f podworkers.PodStatusFunc) error {
			if pod.UID == "down-2" {
				return errors.New("refused")
			}
			return terminate(ctx, pod, view, grace, f)
		}
		w := podworkers.New(syncer, podworkers.Options{})
		stop := run(t, w)
		w.UpdatePod(create(newPod("up")))
		first := killing(w, newPod("down-1"))
		second := killing(w, newPod("down-2")) // waits for the next attempt
		synctest.Wait()
		began := time.Now()
		stop()
		if d := time.Since(began); d != 5*time.Second {
			t.Errorf("the stop took %v, want what the terminating call takes", d)
		}
		expect(t, &l, "setup up gave up: "+podworkers.CauseStopping.Error(), "terminating down-1")
		first.expect(t, machine.KillDone)
		second.expect(t, machine.KillStopped) // Q4
		if w.IsPodTerminationRequested("up") {
			t.Error("the stop requested the termination of a pod")
		}
	})
}

// L9: after the drain limit the workers cancel every call.
func TestDrainTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		w := podworkers.New(patient(&l, false), podworkers.Options{DrainTimeout: time.Second})
		stop := run(t, w)
		o := killing(w, newPod("a"))
		synctest.Wait()
		stop()
		expect(t, &l, "terminating a "+podworkers.CauseStopping.Error())
		o.expect(t, machine.KillStopped)
	})
}

// L9: the mode Now cancels every call, including waits for views.
func TestStopNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		w := podworkers.New(patient(&l, false), podworkers.Options{Views: newFakeViews()})
		run(t, w)
		w.UpdatePod(create(newPod("waits-for-view")))
		o := killing(w, newPod("too"))
		synctest.Wait()
		if err := w.Stop(t.Context(), podworkers.Now); err != nil {
			t.Fatal(err)
		}
		o.expect(t, machine.KillStopped)
		expect(t, &l)
	})
}

// L9, edge case 33: the mode Terminate takes every pod through all its phases.
func TestTerminate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		syncer := logging(&l)
		syncer.Sync = func(context.Context, podworkers.UpdateType, *v1.Pod, *v1.Pod, *runtime.PodStatus) (podworkers.SyncResult, error) {
			return podworkers.SyncResult{}, nil
		}
		w := podworkers.New(syncer, podworkers.Options{TerminateGrace: 1500 * time.Millisecond})
		run(t, w)
		for _, uid := range []types.UID{"c", "a", "b"} {
			w.UpdatePod(create(newPod(uid)))
		}
		w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Kill, RunningPod: &runtime.Pod{UID: "r"}})
		synctest.Wait()
		l.take()
		if err := w.Stop(t.Context(), podworkers.Terminate); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"terminating a 2", "terminating b 2", "terminating c 2",
			"terminated a", "terminated b", "terminated c",
		}
		got := l.take()
		slices.Sort(got) // all at once
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("calls %q, want %q", got, want)
		}
		for _, uid := range []types.UID{"a", "b", "c"} {
			if !w.ShouldPodBeFinished(uid) {
				t.Errorf("%s is not finished", uid)
			}
		}
		if got := w.UpdatePod(create(newPod("d"))); got != machine.OutcomeStopped {
			t.Errorf("update after the stop: %v", got)
		}
	})
}

// L9: Terminate gives up when its context ends, and returns that error.
func TestTerminateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		w := podworkers.New(patient(&l, false), podworkers.Options{})
		run(t, w)
		w.UpdatePod(create(newPod("a")))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.Stop(ctx, podworkers.Terminate); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Stop: %v", err)
		}
	})
}

// L9: Terminate succeeds only if every pod has finished; workers that end otherwise have left pods as they were.
func TestTerminateSaysWhetherPodsFinished(t *testing.T) {
	type workers struct {
		*podworkers.Workers
		endRun context.CancelFunc
	}
	stop := func(t *testing.T, w workers, mode podworkers.StopMode) {
		if err := w.Stop(t.Context(), mode); err != nil {
			t.Errorf("mode %d: %v", mode, err)
		}
	}
	for name, tc := range map[string]struct {
		neverRun, finished bool
		before, meanwhile  func(*testing.T, workers)
	}{
		"Run's context has ended":           {before: func(_ *testing.T, w workers) { w.endRun() }},
		"Run's context ends meanwhile":      {meanwhile: func(_ *testing.T, w workers) { w.endRun() }},
		"detached":                          {before: func(t *testing.T, w workers) { stop(t, w, podworkers.Detach) }},
		"detached meanwhile":                {meanwhile: func(t *testing.T, w workers) { stop(t, w, podworkers.Detach) }},
		"stopped at once":                   {before: func(t *testing.T, w workers) { stop(t, w, podworkers.Now) }},
		"never run":                         {neverRun: true},
		"terminated":                        {before: func(t *testing.T, w workers) { stop(t, w, podworkers.Terminate) }, finished: true},
		"terminated, and its context ended": {before: func(t *testing.T, w workers) { stop(t, w, podworkers.Terminate); w.endRun() }, finished: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l log
				w := workers{Workers: podworkers.New(patient(&l, false), podworkers.Options{}), endRun: func() {}}
				if !tc.neverRun {
					w.endRun = run(t, w.Workers)
				}
				w.UpdatePod(create(newPod("a")))
				w.UpdatePod(create(newPod("b")))
				synctest.Wait()
				if tc.before != nil {
					tc.before(t, w)
				}
				stopped := make(chan error, 1)
				go func() { stopped <- w.Stop(t.Context(), podworkers.Terminate) }()
				synctest.Wait()
				if tc.meanwhile != nil {
					tc.meanwhile(t, w)
				}
				if err := <-stopped; (err == nil) != tc.finished || err != nil && !errors.Is(err, podworkers.ErrStopped) {
					t.Errorf("Stop: %v", err)
				}
			})
		})
	}
}

// I23, L7: Stop names the calls that ignore everything; Run waits for them.
func TestStopError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events log
		release := make(chan struct{})
		w := podworkers.New(podworkers.PodSyncerFuncs{
			Sync: func(context.Context, podworkers.UpdateType, *v1.Pod, *v1.Pod, *runtime.PodStatus) (podworkers.SyncResult, error) {
				<-release
				return podworkers.SyncResult{}, nil
			},
		}, podworkers.Options{StuckAfter: 30 * time.Second, Events: &events})
		run(t, w)
		w.UpdatePod(create(newPod("b")))
		w.UpdatePod(create(newPod("a")))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := w.Stop(ctx, podworkers.Detach)
		var stuck *podworkers.StopError
		if !errors.As(fmt.Errorf("wrapped: %w", err), &stuck) || !slices.Equal(stuck.UIDs, []types.UID{"a", "b"}) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Stop: %v", err)
		}
		expect(t, &events, "Warning SyncStuck a", "Warning SyncStuck b")
		close(release)
		if err := w.Stop(t.Context(), podworkers.Now); err != nil {
			t.Errorf("second Stop: %v", err)
		}
	})
}

// L7: a call that ignores its cancellation is reported, and never doubled.
func TestStuckCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l, events log
		syncer := patient(&l, true)
		release := make(chan struct{})
		syncer.Sync = func(context.Context, podworkers.UpdateType, *v1.Pod, *v1.Pod, *runtime.PodStatus) (podworkers.SyncResult, error) {
			<-release
			return podworkers.SyncResult{}, nil
		}
		w := podworkers.New(syncer, podworkers.Options{Events: &events})
		run(t, w)
		w.UpdatePod(create(newPod("a")))
		synctest.Wait()
		o := killing(w, newPod("a"))
		pass(29 * time.Second)
		expect(t, &events)
		pass(2 * time.Second)
		expect(t, &events, "Warning SyncStuck a")
		expect(t, &l)
		close(release)
		pass(6 * time.Second)
		expect(t, &l, "terminating a", "terminated a")
		o.expect(t, machine.KillDone)
	})
}

// Run and Stop out of order are errors, not panics.
func TestRunTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := podworkers.New(nil, podworkers.Options{})
		stop := run(t, w)
		synctest.Wait()
		if err := w.Run(t.Context()); !errors.Is(err, podworkers.ErrRunning) {
			t.Errorf("second Run: %v", err)
		}
		stop()
		never := podworkers.New(nil, podworkers.Options{})
		o := killing(never, newPod("a"))
		if err := never.Stop(t.Context(), podworkers.Detach); err != nil {
			t.Errorf("Stop before Run: %v", err)
		}
		o.expect(t, machine.KillStopped)
		if err := never.Run(t.Context()); !errors.Is(err, podworkers.ErrStopped) {
			t.Errorf("Run after Stop: %v", err)
		}
	})
}
