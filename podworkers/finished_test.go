package podworkers_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// TestWaitFinishedReturnsAtTheEndOfTheTerminatedStep, neither sooner nor later.
func TestWaitFinishedReturnsAtTheEndOfTheTerminatedStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := podworkers.New(podworkers.PodSyncerFuncs{
			Terminated: func(context.Context, *v1.Pod, *runtime.PodStatus) error {
				<-time.After(7 * time.Second)
				return nil
			},
		}, podworkers.Options{})
		run(t, w)
		w.UpdatePod(create(newPod("a")))
		w.UpdatePod(create(newPod("b")))
		synctest.Wait()
		began := time.Now()
		w.UpdatePod(kill(newPod("a"), podworkers.KillOptions{}))
		for range 2 { // the second finds it finished
			if err := w.WaitFinished(t.Context(), "a"); err != nil {
				t.Errorf("WaitFinished: %v", err)
			}
			if d := time.Since(began); d != 7*time.Second {
				t.Errorf("after %v, want 7s", d)
			}
		}
	})
}

// TestWaitFinishedReturnsForUnknownPods: also for a pod that the workers forget during the wait.
func TestWaitFinishedReturnsForUnknownPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := podworkers.New(nil, podworkers.Options{})
		if err := w.WaitFinished(t.Context(), "unknown"); err != nil {
			t.Errorf("an unknown pod: %v", err)
		}
		w.UpdatePod(create(newPod("a"))) // no call begins without Run
		waited := make(chan error, 1)
		go func() { waited <- w.WaitFinished(t.Context(), "a") }()
		synctest.Wait()
		if !w.IsPodKnown("a") || w.IsPodKnown("unknown") {
			t.Error("a pod is known from its first update on")
		}
		w.SyncKnownPods(nil)
		if w.IsPodKnown("a") {
			t.Error("a forgotten pod is known")
		}
		if err := <-waited; err != nil {
			t.Errorf("a forgotten pod: %v", err)
		}
	})
}

// TestWaitFinishedEndsWithItsContext and returns the cause.
func TestWaitFinishedEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := podworkers.New(nil, podworkers.Options{})
		run(t, w)
		w.UpdatePod(create(newPod("a")))
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(why) })
		if err := w.WaitFinished(ctx, "a"); !errors.Is(err, why) {
			t.Errorf("WaitFinished: %v", err)
		}
	})
}

// TestWaitFinishedEndsWithTheWorkers: a pod that they leave running never finishes.
func TestWaitFinishedEndsWithTheWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := podworkers.New(nil, podworkers.Options{})
		stop := run(t, w)
		w.UpdatePod(create(newPod("a")))
		waited := make(chan error, 1)
		go func() { waited <- w.WaitFinished(t.Context(), "a") }()
		synctest.Wait()
		stop()
		for range 2 {
			if err := <-waited; !errors.Is(err, podworkers.ErrStopped) {
				t.Errorf("WaitFinished: %v, want ErrStopped", err)
			}
			waited <- w.WaitFinished(t.Context(), "a") // after the end
		}
	})
}

// lateContext ends just after something else happened.
type lateContext struct {
	context.Context
	before func()
}

func (c lateContext) Done() <-chan struct{} {
	c.before()
	return c.Context.Done()
}

// TestWaitFinishedAtTheEndOfItsContext: a pod that finished before its waiter noticed the end of the context has finished.
func TestWaitFinishedAtTheEndOfItsContext(t *testing.T) {
	for range 20 { // a select takes any case that is ready
		synctest.Test(t, func(t *testing.T) {
			end := make(chan struct{})
			w := podworkers.New(podworkers.PodSyncerFuncs{
				Terminated: func(context.Context, *v1.Pod, *runtime.PodStatus) error { <-end; return nil },
			}, podworkers.Options{})
			run(t, w)
			w.UpdatePod(create(newPod("a")))
			synctest.Wait()
			w.UpdatePod(kill(newPod("a"), podworkers.KillOptions{}))
			synctest.Wait()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := w.WaitFinished(lateContext{ctx, func() { close(end); synctest.Wait() }}, "a"); err != nil {
				t.Errorf("WaitFinished: %v", err)
			}
		})
	}
}
