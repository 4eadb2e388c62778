package podworkers_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/internal/machine"
	"github.com/podwright/podwright/runtime"
)

// Section 6, Q6 and the outcomes of KillPod.
func TestKillPod(t *testing.T) {
	grace := func(n int64) *int64 { return &n }
	for _, test := range []struct {
		name  string
		spec  *int64
		over  *int64
		limit time.Duration
	}{
		{"at least ten seconds", grace(2), nil, 10 * time.Second},
		{"one and a half times the spec's", grace(31), nil, 46 * time.Second},
		{"the override counts", grace(30), grace(20), 30 * time.Second},
		{"no grace at all", nil, nil, 10 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var events log
				w := podworkers.New(podworkers.PodSyncerFuncs{
					Terminating: func(ctx context.Context, _ *v1.Pod, _ *runtime.PodStatus, _ *int64, _ podworkers.PodStatusFunc) error {
						<-ctx.Done()
						return nil
					},
				}, podworkers.Options{Events: &events, DrainTimeout: time.Second})
				run(t, w)
				pod := newPod("a")
				pod.Spec.TerminationGracePeriodSeconds = test.spec
				began := time.Now()
				result, err := w.KilledPod(t.Context(), pod, podworkers.KillOptions{GracePeriodSeconds: test.over})
				if result != machine.KillTimeout || !errors.Is(err, podworkers.ErrKillTimeout) {
					t.Errorf("KillPod: %v, %v", result, err)
				}
				if d := time.Since(began); d != test.limit {
					t.Errorf("waited %v, want %v", d, test.limit)
				}
				expect(t, &events, "Warning ExceededGracePeriod a")
			})
		})
	}
	t.Run("the caller's context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := podworkers.New(nil, podworkers.Options{}) // not run: nothing ever stops
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if result, err := w.KilledPod(ctx, newPod("a"), podworkers.KillOptions{}); result != machine.KillTimeout || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("KillPod: %v, %v", result, err)
			}
		})
	})
	t.Run("the last error of a call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			broken := errors.New("runtime is broken")
			w := podworkers.New(podworkers.PodSyncerFuncs{
				Terminating: func(context.Context, *v1.Pod, *runtime.PodStatus, *int64, podworkers.PodStatusFunc) error {
					return broken
				},
			}, podworkers.Options{DrainTimeout: time.Second})
			stop := run(t, w)
			if err := w.KillPod(t.Context(), newPod("a"), podworkers.KillOptions{}); !errors.Is(err, podworkers.ErrKillTimeout) || !errors.Is(err, broken) {
				t.Errorf("after the time-out: %v", err)
			}
			ended := make(chan error)
			go func() {
				err := w.KillPod(t.Context(), newPod("a"), podworkers.KillOptions{})
				ended <- err
			}()
			synctest.Wait()
			stop()
			if err := <-ended; !errors.Is(err, podworkers.ErrStopped) || !errors.Is(err, broken) {
				t.Errorf("after the stop: %v", err)
			}
		})
	})
	t.Run("never started", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := podworkers.New(nil, podworkers.Options{})
			run(t, w)
			w.UpdatePod(create(newStatic("a", "web")))
			synctest.Wait()
			w.UpdatePod(create(newStatic("b", "web")))
			if result, err := w.KilledPod(t.Context(), newStatic("b", "web"), podworkers.KillOptions{}); result != machine.KillNeverStarted || err != nil {
				t.Errorf("KillPod: %v, %v", result, err)
			}
			if !w.CouldHaveRunningContainers("a") {
				t.Error("edge case 4: the other pod was affected")
			}
		})
	})
	t.Run("never started, for a cause", func(t *testing.T) { // W6: otherwise nothing would tell the cause
		for name, kill := range map[string]podworkers.KillOptions{
			"evicted": {Evict: true}, "with a status": {StatusFunc: func(s *v1.PodStatus) { s.Reason = "Stopped" }},
		} {
			synctest.Test(t, func(t *testing.T) {
				told := map[string]bool{}
				w := podworkers.New(podworkers.PodSyncerFuncs{
					Terminating: func(_ context.Context, pod *v1.Pod, _ *runtime.PodStatus, _ *int64, amend podworkers.PodStatusFunc) error {
						told[string(pod.UID)] = (amend != nil) == (kill.StatusFunc != nil)
						return nil
					},
				}, podworkers.Options{})
				run(t, w)
				w.UpdatePod(create(newStatic("a", "web")))
				synctest.Wait()
				w.UpdatePod(create(newStatic("b", "web")))
				if result, err := w.KilledPod(t.Context(), newStatic("b", "web"), kill); result != machine.KillDone || err != nil {
					t.Errorf("%s: KillPod: %v, %v", name, result, err)
				}
				synctest.Wait()
				if len(told) != 1 || !told["b"] || !w.ShouldPodBeFinished("b") || !w.CouldHaveRunningContainers("a") {
					t.Errorf("%s: told %v", name, told)
				}
			})
		}
	})
	t.Run("no pod", func(t *testing.T) {
		w := podworkers.New(nil, podworkers.Options{})
		if err := w.KillPod(t.Context(), nil, podworkers.KillOptions{}); err == nil {
			t.Error("no error")
		}
	})
}

// G4, G7: a pod that ended by itself is being stopped with the hour of its spec. A kill with less does not wait for it.
func TestKillOfAPodThatEndedByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		s := logging(&l)
		s.Sync = func(context.Context, podworkers.UpdateType, *v1.Pod, *v1.Pod, *runtime.PodStatus) (podworkers.SyncResult, error) {
			return podworkers.SyncResult{Terminal: true}, nil
		}
		s.Terminating = func(ctx context.Context, pod *v1.Pod, _ *runtime.PodStatus, grace *int64, _ podworkers.PodStatusFunc) error {
			if grace == nil {
				grace = pod.Spec.TerminationGracePeriodSeconds
			}
			l.add("terminating %d", *grace)
			select {
			case <-time.After(time.Duration(*grace) * time.Second):
				return nil
			case <-ctx.Done():
				return untilCancelled(ctx)
			}
		}
		w := podworkers.New(s, podworkers.Options{})
		run(t, w)
		pod, hour, five := newPod("a"), int64(3600), int64(5)
		pod.Spec.TerminationGracePeriodSeconds = &hour
		w.UpdatePod(create(pod))
		pass(time.Second)
		began := time.Now()
		if result, err := w.KilledPod(t.Context(), pod, podworkers.KillOptions{GracePeriodSeconds: &five}); result != machine.KillDone || err != nil {
			t.Errorf("KillPod: %v, %v", result, err)
		}
		if d := time.Since(began); d != 5*time.Second {
			t.Errorf("stopped after %v, want 5s", d)
		}
		expect(t, &l, "terminating 3600", "terminating 5", "terminated a")
	})
}
