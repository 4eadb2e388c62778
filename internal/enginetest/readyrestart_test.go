package enginetest_test

import (
	"errors"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/fake"
)

// TestReadySurvivesAgent: status.md 9.1 (b), 9.8, 9.12, edge case 23, probe.md 8.3: a ready pod
// with a slow readiness probe stays ready in the reports of the next agent, whether the last one
// was killed or stopped.
func TestReadySurvivesAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, fake.New(fake.Options{Script: func(fake.Launch) fake.Script {
			return fake.Script{Exec: func(fake.Exec) fake.ExecResult { return fake.ExecResult{} }}
		}}))
		pod := func() *v1.Pod {
			p := newPod("web")
			p.Spec.Containers[0].ReadinessProbe = check("ready")
			p.Spec.Containers[0].ReadinessProbe.PeriodSeconds = 60
			return p
		}
		first := n.agent()
		first.set(pod())
		first.within(2*time.Minute, "ready", func() error { return readyIs(first, pod(), v1.ConditionTrue) })
		<-time.After(2 * time.Second)
		n.kill(first)
		for range 3 {
			r := n.agent()
			synctest.Wait()
			if e, ok := r.engine.Explain("uid-web"); !ok || len(e.Containers) != 1 || !e.Containers[0].Ready {
				t.Errorf("before its source has named it: %v %+v", ok, e.Containers)
			}
			r.set(pod())
			<-time.After(3 * time.Minute)
			if _, ready := r.sink.of("uid-web"); !reflect.DeepEqual(ready, []v1.ConditionStatus{v1.ConditionTrue}) {
				t.Errorf("reported as %v", ready)
			}
			r.stop()
		}
	})
}

// TestReadyOfAnotherContainer: edge case 24, probe.md edge case 25: a container that replaced a
// ready one while no agent was running is not ready until its own probe succeeds.
func TestReadyOfAnotherContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var well atomic.Bool
		well.Store(true)
		n := newHost(t, fake.New(fake.Options{Script: func(fake.Launch) fake.Script {
			return fake.Script{Exec: func(fake.Exec) fake.ExecResult {
				if well.Load() {
					return fake.ExecResult{}
				}
				return fake.ExecResult{Code: 1}
			}}
		}}))
		pod := func() *v1.Pod {
			p := newPod("web")
			p.Spec.Containers[0].ReadinessProbe = check("ready")
			return p
		}
		first := n.agent()
		first.set(pod())
		first.within(2*time.Minute, "ready", func() error { return readyIs(first, pod(), v1.ConditionTrue) })
		<-time.After(2 * time.Second)
		n.kill(first)
		well.Store(false)
		if err := n.rt.Exit("uid-web", "main", fake.Exit{Code: 1}); err != nil {
			t.Fatal(err)
		}

		r := n.agent()
		r.set(pod())
		r.within(time.Minute, "the next container", func() error {
			if starts(n.rt, "uid-web") < 2 {
				return errBusy
			}
			return nil
		})
		<-time.After(10 * time.Second)
		if err := readyIs(r, pod(), v1.ConditionFalse); err != nil {
			t.Error(err)
		}
		_, ready := r.sink.of("uid-web")
		if len(ready) > 0 && ready[len(ready)-1] != v1.ConditionFalse {
			t.Errorf("reported as %v", ready)
		}
	})
}

// TestReadyEndsWithItsBoot: status.md 9.7, cleanup.md CK9. After a restart of the machine nothing is ready or started, and the
// report of the first agent names the restart, also beside a pod that has ended. If the runtime does not describe the pods, the next agent of that boot does not take what was
// ready before it for ready.
func TestReadyEndsWithItsBoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, fake.New(fake.Options{Script: func(l fake.Launch) fake.Script {
			if l.PodName == "done" {
				return fake.Script{Exit: &fake.Exit{}}
			}
			return fake.Script{Exec: func(fake.Exec) fake.ExecResult { return fake.ExecResult{} }}
		}}))
		pods := func() []*v1.Pod {
			web := newPod("web")
			web.Spec.Containers[0].ReadinessProbe = check("ready")
			return []*v1.Pod{web, newPod("plain")}
		}
		all := func() []*v1.Pod {
			done := newPod("done")
			done.Spec.RestartPolicy = v1.RestartPolicyNever
			return append(pods(), done)
		}
		r := n.agent()
		r.set(all()...)
		for _, p := range pods() {
			r.within(2*time.Minute, "ready", func() error { return readyIs(r, p, v1.ConditionTrue) })
		}
		<-time.After(5 * time.Second)
		if done := r.pod("uid-done"); done.Status.Phase != v1.PodSucceeded {
			t.Errorf("the pod that ends: %+v", done.Status)
		}
		n.kill(r)
		n.rt.Reboot()
		n.boot = "boot-2"
		heal := n.rt.Inject(fake.Fault{Match: fake.Match{Method: fake.PodSandboxStatus}, Effect: fake.Effect{Err: errors.New("broken metadata")}})
		for agent := range 2 {
			r = n.agent()
			r.set(all()...)
			<-time.After(20 * time.Second)
			if report, ok := r.engine.Recovery(); !ok || report.Rebooted != (agent == 0) {
				t.Errorf("agent %d: report %t %+v", agent, ok, report)
			}
			for _, p := range pods() {
				c := r.pod(p.UID).Status.ContainerStatuses[0]
				if err := readyIs(r, p, v1.ConditionFalse); err != nil || c.Ready || *c.Started {
					t.Errorf("agent %d: %s is ready: %t, started: %t; %v", agent, p.Name, c.Ready, *c.Started, err)
				}
			}
			if agent == 0 {
				n.kill(r)
			}
		}
		heal()
		for _, p := range pods() {
			r.within(2*time.Minute, "ready again", func() error { return readyIs(r, p, v1.ConditionTrue) })
		}
	})
}
