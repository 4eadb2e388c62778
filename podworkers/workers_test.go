package podworkers_test

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/internal/machine"
	"github.com/podwright/podwright/runtime"
)

// expect compares the lines written since the last look.
func expect(t *testing.T, l *log, want ...string) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, l.take()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// A life from creation to forgetting, with the results of the calls along the way.
func TestLifeFromCreationToForgetting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		w := podworkers.New(logging(&l), podworkers.Options{})
		pod := newPod("a")
		if got := w.UpdatePod(create(pod)); got != machine.OutcomeQueued {
			t.Errorf("UpdatePod before Run: %v", got)
		}
		expect(t, &l) // nothing before Run
		run(t, w)
		expect(t, &l, "setup a create")
		pass(90 * time.Second) // the resync comes after 60 s and up to half of that
		if calls := l.take(); len(calls) != 1 || calls[0] != "setup a sync" {
			t.Errorf("resync: %v", calls)
		}
		result, err := w.KilledPod(t.Context(), pod, podworkers.KillOptions{})
		if err != nil || result != machine.KillDone {
			t.Errorf("KillPod: %v, %v", result, err)
		}
		expect(t, &l, "terminating a 30", "terminated a")
		// Q2, edge case 3: at once, not after ten seconds.
		before := time.Now()
		result, err = w.KilledPod(t.Context(), pod, podworkers.KillOptions{})
		if err != nil || result != machine.KillAlreadyTerminated || time.Since(before) != 0 {
			t.Errorf("KillPod of a finished pod: %v, %v after %v", result, err, time.Since(before))
		}
		if known := w.SyncKnownPods([]*v1.Pod{pod}); !known["a"].State.Terminated() {
			t.Errorf("SyncKnownPods: %v", known)
		}
		if known := w.SyncKnownPods(nil); len(known) != 0 {
			t.Errorf("SyncKnownPods(nil): %v", known)
		}
		if _, ok := w.Explain("a"); ok {
			t.Error("a is still known")
		}
	})
}

// L4, edge case 31: however many calls hang, in whichever phase, another pod is set up and
// stopped at once, and there is one goroutine per call.
func TestHungCallsDelayNoOtherPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var setups, stops atomic.Int32
		release := make(chan struct{})
		var l log
		hangs := func(pod *v1.Pod) bool { return strings.HasPrefix(string(pod.UID), "hung") }
		syncer := logging(&l)
		set, terminate := syncer.Sync, syncer.Terminating
		syncer.Sync = func(ctx context.Context, u podworkers.UpdateType, pod, mirror *v1.Pod, view *runtime.PodStatus) (podworkers.SyncResult, error) {
			if !hangs(pod) {
				return set(ctx, u, pod, mirror, view)
			}
			setups.Add(1)
			return podworkers.SyncResult{}, untilCancelled(ctx)
		}
		syncer.Terminating = func(ctx context.Context, pod *v1.Pod, view *runtime.PodStatus, grace *int64, f podworkers.PodStatusFunc) error {
			if !hangs(pod) {
				return terminate(ctx, pod, view, grace, f)
			}
			stops.Add(1)
			<-release
			return nil
		}
		w := podworkers.New(syncer, podworkers.Options{})
		run(t, w)
		for i := range 500 {
			w.UpdatePod(create(newPod(types.UID(fmt.Sprintf("hung-up-%03d", i)))))
			w.UpdatePod(kill(newPod(types.UID(fmt.Sprintf("hung-down-%03d", i))), podworkers.KillOptions{}))
		}
		synctest.Wait()
		if setups.Load() != 500 || stops.Load() != 500 {
			t.Errorf("%d setup and %d terminating calls, want 500 each", setups.Load(), stops.Load())
		}
		began := time.Now()
		w.UpdatePod(create(newPod("web")))
		expect(t, &l, "setup web create")
		if err := w.KillPod(t.Context(), newPod("web"), podworkers.KillOptions{}); err != nil {
			t.Fatal(err)
		}
		expect(t, &l, "terminating web 30", "terminated web")
		if d := time.Since(began); d > 0 {
			t.Errorf("all this took %v beside hung calls", d)
		}
		close(release)
	})
}

// L4: hanging calls run side by side even if the clock stands still.
func TestHungCallsAskNoClock(t *testing.T) {
	var hung atomic.Int32
	all := make(chan struct{})
	w := podworkers.New(podworkers.PodSyncerFuncs{
		Sync: func(ctx context.Context, _ podworkers.UpdateType, _, _ *v1.Pod, _ *runtime.PodStatus) (podworkers.SyncResult, error) {
			if hung.Add(1) == 1000 {
				close(all)
			}
			return podworkers.SyncResult{}, untilCancelled(ctx)
		},
	}, podworkers.Options{Clock: clocktesting.NewFakeClock(time.Now())})
	run(t, w)
	for i := range 1000 {
		w.UpdatePod(create(newPod(types.UID(fmt.Sprint(i)))))
	}
	<-all
}

// X1, X3, X5, L7: what cancels a call, and that the cause can be read.
func TestCancelCauses(t *testing.T) {
	deleting := func(grace int64) *v1.Pod {
		pod := newPod("a")
		pod.DeletionGracePeriodSeconds = &grace
		return pod
	}
	for _, test := range []struct {
		name string
		rule string
		act  func(*podworkers.Workers)
		want error
	}{
		{"kill", "U13", func(w *podworkers.Workers) { w.UpdatePod(kill(newPod("a"), podworkers.KillOptions{})) }, podworkers.CauseTerminating},
		{"orphaned", "S6b", func(w *podworkers.Workers) { w.SyncKnownPods(nil) }, podworkers.CauseOrphaned},
		{"deadline", "L7", func(*podworkers.Workers) { pass(time.Hour) }, podworkers.CauseDeadline},
	} {
		t.Run(test.rule+" "+test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				causes := make(chan error, 10)
				w := podworkers.New(podworkers.PodSyncerFuncs{
					Sync: func(ctx context.Context, _ podworkers.UpdateType, _, _ *v1.Pod, _ *runtime.PodStatus) (podworkers.SyncResult, error) {
						<-ctx.Done()
						causes <- context.Cause(ctx)
						return podworkers.SyncResult{}, fmt.Errorf("pull: %w", ctx.Err())
					},
				}, podworkers.Options{SetupDeadline: time.Hour})
				run(t, w)
				w.UpdatePod(create(newPod("a")))
				synctest.Wait()
				w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Update, Pod: newPod("a")})
				synctest.Wait()
				if len(causes) > 0 {
					t.Fatalf("an ordinary update cancelled the call: %v", <-causes)
				}
				test.act(w)
				synctest.Wait()
				select {
				case got := <-causes:
					if !errors.Is(got, test.want) {
						t.Errorf("cause %v, want %v", got, test.want)
					}
				default:
					t.Error("the call was not cancelled")
				}
			})
		})
	}
	t.Run("G4 grace shrunk, edge case 5", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var l log
			syncer := logging(&l)
			syncer.Terminating = func(ctx context.Context, _ *v1.Pod, _ *runtime.PodStatus, grace *int64, _ podworkers.PodStatusFunc) error {
				l.add("terminating %d", *grace)
				select {
				case <-ctx.Done():
					l.add("%v", context.Cause(ctx))
					return ctx.Err()
				case <-time.After(time.Minute):
					return nil
				}
			}
			w := podworkers.New(syncer, podworkers.Options{})
			run(t, w)
			for _, grace := range []int64{30, 10, 20} {
				w.UpdatePod(kill(deleting(grace), podworkers.KillOptions{}))
				synctest.Wait()
			}
			pass(59 * time.Second)
			expect(t, &l, "terminating 30", podworkers.CauseGraceShrunk.Error(), "terminating 10")
			pass(2 * time.Second)
			expect(t, &l, "terminated a")
		})
	})
}

// V1, V5, edge case 25: a wait for a view obeys the context and delays no other pod.
func TestViewWait(t *testing.T) {
	for name, peek := range map[string]bool{"plain source": false, "source that peeks": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l log
				views := newFakeViews()
				options := podworkers.Options{Views: views}
				if peek {
					options.Views = peekViews{views}
				}
				w := podworkers.New(logging(&l), options)
				run(t, w)
				pod := newPod("a")
				w.UpdatePod(create(pod))
				expect(t, &l) // no reading yet
				views.relist()
				expect(t, &l, "setup a create")
				w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Update, Pod: pod})
				expect(t, &l) // a view from before the end of the first call does not count
				if e, _ := w.Explain("a"); e.WaitingFor != "a view newer than the last call" {
					t.Errorf("Explain: %q", e.WaitingFor)
				}
				w.UpdatePod(create(newPod("b")))
				expect(t, &l, "setup b create")
				w.UpdatePod(kill(pod, podworkers.KillOptions{}))
				expect(t, &l) // the runtime is still down
				views.relist()
				expect(t, &l, "terminating a 30")
				views.relist()
				expect(t, &l, "terminated a")
				if views.refreshes == 0 {
					t.Error("no refresh was asked for (L6)")
				}
			})
		})
	}
}

// V1, V2: each view is newer than the end of the call before, whatever the source does.
func TestViewsAreFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		views := newFakeViews()
		var last runtime.Stamp
		calls := 0
		w := podworkers.New(podworkers.PodSyncerFuncs{
			Sync: func(_ context.Context, _ podworkers.UpdateType, _, _ *v1.Pod, view *runtime.PodStatus) (podworkers.SyncResult, error) {
				if view.Stamp <= last {
					t.Errorf("view %d after a call that ended at %d", view.Stamp, last)
				}
				view.IPs = append(view.IPs, "10.0.0.1") // V7: ours to write
				last = views.Stamp()
				calls++
				return podworkers.SyncResult{}, nil
			},
		}, podworkers.Options{Views: peekViews{views}})
		run(t, w)
		for range 100 {
			w.UpdatePod(create(newPod("a")))
			views.relist()
			synctest.Wait()
		}
		if calls < 50 {
			t.Errorf("only %d calls", calls)
		}
	})
}

// W10, V3, edge case 26: no view, no call, an event, back-off.
func TestViewError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l, events log
		views := newFakeViews()
		views.relist()
		views.fail(errTest)
		w := podworkers.New(logging(&l), podworkers.Options{Views: views, Events: &events, Rand: func() float64 { return 0 }})
		run(t, w)
		w.UpdatePod(create(newPod("a")))
		expect(t, &l)
		expect(t, &events, "Warning FailedSync a")
		e, _ := w.Explain("a")
		if !strings.Contains(e.LastError, "broken") || time.Until(e.NextWakeUp) != time.Second {
			t.Errorf("Explain: %+v", e)
		}
		views.fail(nil)
		pass(time.Second)
		expect(t, &l, "setup a sync") // C8
	})
}

// L8, edge case 29: a panic or Goexit harms one pod, is reported rarely, and is retried.
func TestPanic(t *testing.T) {
	for name, breakdown := range map[string]func(){"panic": func() { panic("boom") }, "Goexit": goruntime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l, events log
				syncer := logging(&l)
				syncer.Sync = func(_ context.Context, _ podworkers.UpdateType, pod, _ *v1.Pod, _ *runtime.PodStatus) (podworkers.SyncResult, error) {
					if pod.UID == "bad" {
						breakdown()
					}
					l.add("setup %s", pod.UID)
					return podworkers.SyncResult{}, nil
				}
				back := podworkers.BackOff{Initial: time.Second, Max: time.Second}
				w := podworkers.New(syncer, podworkers.Options{Events: &events, SetupBackOff: back, Rand: func() float64 { return 0 }})
				run(t, w)
				w.UpdatePod(create(newPod("bad")))
				w.UpdatePod(create(newPod("good")))
				expect(t, &l, "setup good")
				expect(t, &events, "Warning SyncPanic bad")
				pass(8 * time.Second)
				expect(t, &events) // nine panics so far
				pass(time.Second)
				expect(t, &events, "Warning SyncPanic bad")
				e, _ := w.Explain("bad")
				if e.Failures != 10 || e.LastError == "" || strings.Contains(e.LastError, "\n") {
					t.Errorf("Explain: %+v", e)
				}
				w.UpdatePod(kill(newPod("bad"), podworkers.KillOptions{}))
				expect(t, &l, "terminating bad 30", "terminated bad")
			})
		})
	}
}

// Bad input has the outcome that the rules state.
func TestBadInputHasItsOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		syncer, asked := logging(&l), make(chan struct{})
		syncer.Terminating = func(context.Context, *v1.Pod, *runtime.PodStatus, *int64, podworkers.PodStatusFunc) error {
			<-asked
			return nil
		}
		w := podworkers.New(syncer, podworkers.Options{})
		stop := run(t, w)
		running := &runtime.Pod{UID: "r", Name: "n", Namespace: "ns"}
		for _, test := range []struct {
			name   string
			update podworkers.UpdateOptions
			want   podworkers.Outcome
		}{
			{"nil pod", podworkers.UpdateOptions{Type: podworkers.Create}, machine.OutcomeIgnoredInvalid},
			{"empty UID", create(newPod("")), machine.OutcomeIgnoredInvalid},
			{"runtime pod without UID", podworkers.UpdateOptions{Type: podworkers.Kill, RunningPod: &runtime.Pod{}}, machine.OutcomeIgnoredInvalid},
			{"U1, edge case 18: runtime pod with another type", podworkers.UpdateOptions{Type: podworkers.Update, RunningPod: running}, machine.OutcomeIgnoredInvalid},
			{"U1: both", podworkers.UpdateOptions{Type: podworkers.Update, Pod: newPod("a"), RunningPod: running}, machine.OutcomeQueued},
		} {
			completed := make(chan struct{})
			var result machine.KillOutcome
			options := podworkers.KillOptions{Completed: completed}.Of(&result)
			test.update.Kill = &options
			if got := w.UpdatePod(test.update); got != test.want {
				t.Errorf("%s: %v, want %v", test.name, got, test.want)
			}
			select {
			case <-completed: // Q1, U10
				if result != machine.KillNotRequested {
					t.Errorf("%s: %v", test.name, result)
				}
			default:
				t.Errorf("%s: the completion stays open", test.name)
			}
		}
		expect(t, &l, "setup a update")
		if _, ok := w.Explain("r"); ok {
			t.Error("the runtime pod got a record")
		}
		w.SyncKnownPods([]*v1.Pod{nil, newPod("a")})

		// Q5, edge case 27, and once more after it was closed.
		completed := make(chan struct{})
		var first, second machine.KillOutcome
		w.UpdatePod(kill(newPod("a"), podworkers.KillOptions{Completed: completed}.Of(&first)))
		w.UpdatePod(kill(newPod("a"), podworkers.KillOptions{Completed: completed}.Of(&second)))
		close(asked)
		<-completed
		if first != machine.KillDone || second != machine.KillDone {
			t.Errorf("results %v and %v", first, second)
		}
		w.UpdatePod(kill(newPod("a"), podworkers.KillOptions{Completed: completed}))
		synctest.Wait()
		stop()
		if got := w.UpdatePod(create(newPod("late"))); got != machine.OutcomeStopped {
			t.Errorf("update after the stop: %v", got)
		}
		if result, err := w.KilledPod(t.Context(), newPod("late"), podworkers.KillOptions{}); result != machine.KillStopped || !errors.Is(err, podworkers.ErrStopped) {
			t.Errorf("KillPod after the stop: %v, %v", result, err)
		}
	})
}

// X2, edge case 14: a call that succeeds although it was cancelled has succeeded.
func TestSuccessAfterCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		syncer := logging(&l)
		syncer.Sync = func(ctx context.Context, _ podworkers.UpdateType, _, _ *v1.Pod, _ *runtime.PodStatus) (podworkers.SyncResult, error) {
			<-ctx.Done()
			return podworkers.SyncResult{Terminal: true}, nil
		}
		w := podworkers.New(syncer, podworkers.Options{})
		run(t, w)
		w.UpdatePod(create(newPod("a")))
		synctest.Wait()
		two := int64(2)
		w.UpdatePod(kill(newPod("a"), podworkers.KillOptions{GracePeriodSeconds: &two}))
		expect(t, &l, "terminating a 2", "terminated a") // edge case 13: once, with the kill's grace
	})
}

// Edge case 34: a clock that goes back an hour delays nothing.
func TestClockThatGoesBackDelaysNothing(t *testing.T) {
	var l log
	clock := newSteppedClock()
	w := podworkers.New(logging(&l), podworkers.Options{Clock: clock, Rand: func() float64 { return 0 }})
	run(t, w)
	w.UpdatePod(create(newPod("a")))
	l.waitFor(t, "setup a create")
	clock.SetTime(clock.Now().Add(-time.Hour))
	w.UpdatePod(create(newPod("b")))
	l.waitFor(t, "setup b create")
	clock.awaitTimer(60 * time.Second)
	clock.Step(60 * time.Second)
	l.waitFor(t, "setup a sync")
	e, _ := w.Explain("b")
	if e.NextWakeUp.Before(e.Since) {
		t.Errorf("Explain: %+v", e)
	}
}
