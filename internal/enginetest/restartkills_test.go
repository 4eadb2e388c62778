package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
)

// TestRestartNeedsItsRecord: OC2: while the disk cannot be written, a restart stops nothing. The
// call fails, and has no effect even when the disk has room again.
func TestRestartNeedsItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, fake.New(fake.Options{Script: restartScripts}))
		pod := newPod("web")
		r := n.agent()
		r.set(pod)
		r.phase(pod.UID, v1.PodRunning, time.Minute)
		<-time.After(10 * time.Second)
		n.setFull(true)
		if err := r.engine.RestartPod(t.Context(), pod.UID, podwright.RestartOptions{}); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("a full disk: %v", err)
		}
		n.setFull(false)
		<-time.After(10 * time.Minute)
		if got, want := r.restarts(pod.UID), "main 1/0"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if err := r.engine.RestartPod(t.Context(), pod.UID, podwright.RestartOptions{}); err != nil {
			t.Error(err)
		}
		if rec := n.records()[pod.UID]; rec == nil || rec.Restarts == nil {
			t.Errorf("the record: %+v", rec)
		}
	})
}

// TestRestartKilledAtEveryPoint: OC2: the agent is killed before and after each operation on the disk while a pod is restarted. The
// next agent restarts it or not, but never twice, and no container stays down, although its policy would allow that.
func TestRestartKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	points, once := 0, 0
	synctest.Test(t, func(t *testing.T) { points, _ = restartKilledAt(t, 0) })
	if points < 4 {
		t.Fatalf("only %d points", points)
	}
	for at := 1; at <= points; at++ {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if _, n := restartKilledAt(t, at); n == 1 {
					once++
				}
			})
		})
	}
	if once == 0 {
		t.Error("no kill left the restart to the next agent")
	}
}

func restartKilledAt(t *testing.T, at int) (points int, restarted int32) {
	n := newHost(t, fake.New(fake.Options{Script: restartScripts}))
	pod := withPolicy(withSidecar(newPod("web", "main")), v1.RestartPolicyOnFailure)
	first := n.agent()
	first.set(pod)
	first.phase(pod.UID, v1.PodRunning, time.Minute)
	<-time.After(10 * time.Second)
	n.points, n.killAt = 0, at
	ctx, cancel := context.WithCancel(t.Context())
	var call sync.WaitGroup
	call.Go(func() { _ = first.engine.RestartPod(ctx, pod.UID, podwright.RestartOptions{}) })
	select {
	case <-n.killed:
	case <-time.After(30 * time.Second):
	}
	n.kill(first)
	cancel()
	call.Wait()
	points = n.points

	n.killAt = 0
	r := n.agent()
	r.set(pod)
	r.phase(pod.UID, v1.PodRunning, time.Minute)
	<-time.After(5 * time.Minute)
	main, proxy := r.pod(pod.UID).Status.ContainerStatuses[0], r.pod(pod.UID).Status.InitContainerStatuses[1]
	if main.State.Running == nil || proxy.State.Running == nil || main.RestartCount != proxy.RestartCount || main.RestartCount > 1 {
		t.Errorf("%s, %s", r.restarts(pod.UID), r.explain(pod.UID))
	}
	if got, want := r.restarts(pod.UID), fmt.Sprintf("setup 1/0, proxy %d/%d, main %d/%d", main.RestartCount+1, main.RestartCount, main.RestartCount+1, main.RestartCount); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if e, _ := r.engine.Explain(pod.UID); e.Restart != "" {
		t.Errorf("left to do: %s", e.Restart)
	}
	return points, main.RestartCount
}

// TestRestartIsFinishedByNextAgent: OC2, IN8: the agent is killed while the runtime does not stop a container, or after it has stopped one whose
// policy lets it end. The next agent brings all of them up; meanwhile its status says why.
func TestRestartIsFinishedByNextAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, fake.New(fake.Options{Script: restartScripts}))
		pod := withPolicy(withSidecar(newPod("web", "main", "stuck")), v1.RestartPolicyOnFailure)
		r := n.agent()
		r.set(pod)
		r.phase(pod.UID, v1.PodRunning, time.Minute)
		<-time.After(10 * time.Second)
		answer := n.rt.Inject(fake.Fault{Match: fake.Match{Method: fake.StopContainer, Container: "stuck"}, Effect: fake.Effect{Hang: true}})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := r.engine.RestartPod(ctx, pod.UID, podwright.RestartOptions{Message: "The disk is new."}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the call: %v", err)
		}
		if n.rt.Running(pod.UID, "main") != 0 {
			t.Error("main was not stopped")
		}
		n.kill(r)
		answer()
		makes := n.rt.Inject(fake.Fault{Match: fake.Match{Method: fake.CreateContainer}, Effect: fake.Effect{Delay: 10 * time.Second}})
		r = n.agent()
		r.set(pod)
		r.within(time.Minute, "the reason in the status", func() error {
			if p := r.pod(pod.UID); p != nil && len(p.Status.ContainerStatuses) == 2 {
				if w := p.Status.ContainerStatuses[0].State.Waiting; w != nil && w.Reason == "RestartRequested" && w.Message == "The disk is new." && p.Status.Phase == v1.PodRunning {
					return nil
				}
			}
			return errors.New(r.explain(pod.UID))
		})
		r.within(time.Minute, "all new runs", func() error {
			if got, want := r.restarts(pod.UID), "setup 1/0, proxy 2/1, main 2/1, stuck 2/1"; got != want {
				return fmt.Errorf("%s, want %s", got, want)
			}
			return nil
		})
		makes()
		<-time.After(time.Hour)
		if got, want := r.restarts(pod.UID), "setup 1/0, proxy 2/1, main 2/1, stuck 2/1"; got != want {
			t.Errorf("an hour later: %s, want %s", got, want)
		}
	})
}
