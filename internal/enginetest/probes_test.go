package enginetest_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
)

// check is an exec probe that runs every second.
func check(name string) *v1.Probe {
	return &v1.Probe{
		ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{name}}},
		PeriodSeconds: 1, FailureThreshold: 3,
	}
}

// execs returns when the commands with one name ran.
func execs(rt *fake.Runtime, name string) (at []time.Time) {
	for _, c := range rt.Calls(fake.Match{Method: fake.ExecSync}) {
		if c.Request.(*runtimeapi.ExecSyncRequest).Cmd[0] == name {
			at = append(at, c.Start)
		}
	}
	return at
}

// TestPodIsReadyWhenItsProbeSaysSo: a pod is ready as soon as its probe says so, and becomes unready while
// it drains (spec/probe.md 6.2, 7.1, edge case 23).
func TestPodIsReadyWhenItsProbeSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Bool
		rt := fake.New(fake.Options{Script: func(fake.Launch) fake.Script {
			return fake.Script{
				ReadyAfter: 3 * time.Second, OnTERM: fake.Exit{After: 8 * time.Second},
				Exec: func(e fake.Exec) fake.ExecResult {
					if e.Ready && !closed.Load() {
						return fake.ExecResult{}
					}
					return fake.ExecResult{Code: 1, Stderr: "not yet"}
				},
			}
		}})
		r := newRig(t, rt, t.TempDir()).start()
		p := newPod("web")
		p.Spec.Containers[0].ReadinessProbe = check("ready")
		p.Spec.Containers[0].LivenessProbe = check("live")
		p.Spec.Containers[0].LivenessProbe.FailureThreshold = 1000
		p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](20)
		r.set(p)
		r.phase(p.UID, v1.PodRunning, 10*time.Second)
		if took := r.within(10*time.Second, "ready", func() error { return readyIs(r, p, v1.ConditionTrue) }); took < 2*time.Second || took > 5*time.Second {
			t.Errorf("ready after %v", took)
		}
		e, _ := r.engine.Explain(p.UID)
		if len(e.Probes) != 2 || e.Probes[1].Kind != "Readiness" || e.Probes[1].Result != "Success" {
			t.Errorf("explained: %+v", e.Probes)
		}
		if n := r.events.count("web Unhealthy"); n < 1 || n > 5 {
			t.Errorf("9.9: %d Unhealthy events", n)
		}
		deleted := p.DeepCopy()
		deleted.DeletionTimestamp, deleted.DeletionGracePeriodSeconds = ptr.To(metav1.Now()), ptr.To[int64](20)
		r.set(deleted)
		<-time.After(time.Second)
		before := len(execs(rt, "live"))
		closed.Store(true)
		r.within(7*time.Second, "not ready while draining", func() error { return readyIs(r, p, v1.ConditionFalse) })
		if got := len(execs(rt, "live")); got != before {
			t.Errorf("7.1: liveness went on, %d runs, then %d", before, got)
		}
		r.within(30*time.Second, "the end", func() error {
			if pod := r.pod(p.UID); pod != nil && pod.Status.ContainerStatuses[0].State.Terminated == nil {
				return errors.New("still running")
			}
			return nil
		})
		runs := len(execs(rt, "ready"))
		<-time.After(10 * time.Second)
		if got := len(execs(rt, "ready")); got != runs {
			t.Errorf("7.1: readiness goes on after the end")
		}
		if _, seen := r.sink.of(p.UID); !reflect.DeepEqual(seen, []v1.ConditionStatus{v1.ConditionFalse, v1.ConditionTrue, v1.ConditionFalse}) {
			t.Errorf("Ready went through %v", seen)
		}
	})
}

func readyIs(r *rig, p *v1.Pod, want v1.ConditionStatus) error {
	pod := r.pod(p.UID)
	if pod == nil {
		return fmt.Errorf("gone")
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodReady && c.Status == want {
			return nil
		}
	}
	return fmt.Errorf("%+v", pod.Status.Conditions)
}

// TestLivenessRestartsOnce: the container is killed with the probe's own grace period and started
// again, once (spec/probe.md 4.6, 7.5, edge case 7); the startup probe holds back
// liveness (3.1, edge cases 3 and 4).
func TestLivenessRestartsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{Script: func(l fake.Launch) fake.Script {
			return fake.Script{
				ReadyAfter: 5 * time.Second, IgnoreTERM: true,
				Exec: func(e fake.Exec) fake.ExecResult {
					if e.Cmd[0] == "live" && l.Number == 1 || !e.Ready {
						return fake.ExecResult{Code: 1, Stdout: "no"}
					}
					return fake.ExecResult{}
				},
			}
		}})
		r := newRig(t, rt, t.TempDir()).start()
		p := newPod("web")
		p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](300)
		c := &p.Spec.Containers[0]
		c.StartupProbe, c.LivenessProbe = check("started"), check("live")
		c.StartupProbe.FailureThreshold = 30
		c.LivenessProbe.TerminationGracePeriodSeconds = ptr.To[int64](4)
		r.set(p)
		r.phase(p.UID, v1.PodRunning, 10*time.Second)
		begin := time.Now()
		r.within(30*time.Second, "a restart", func() error {
			if n := r.pod(p.UID).Status.ContainerStatuses[0].RestartCount; n != 1 {
				return fmt.Errorf("%d restarts", n)
			}
			return nil
		})
		live := execs(rt, "live")
		if len(live) != 3 || live[0].Sub(begin) < 4*time.Second {
			t.Errorf("liveness ran at %v, the container is up since %v", live, begin)
		}
		stops := rt.Calls(fake.Match{Method: fake.StopContainer})
		if len(stops) != 1 || stops[0].Request.(*runtimeapi.StopContainerRequest).Timeout != 4 {
			t.Errorf("stopped by %+v", stops)
		}
		<-time.After(time.Minute)
		status := r.pod(p.UID).Status.ContainerStatuses[0]
		if status.RestartCount != 1 || !status.Ready || status.State.Running == nil {
			t.Errorf("afterwards %+v", status)
		}
		if err := rt.Doubled(); err != nil {
			t.Error(err)
		}
	})
}

// TestInitWaitsForSidecarStartup: the next init container waits for a sidecar's startup probe, but
// not for its readiness (spec/probe.md 6.5, edge case 29).
func TestInitWaitsForSidecarStartup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{Script: func(l fake.Launch) fake.Script {
			if l.Container == "init" {
				return fake.Script{Exit: &fake.Exit{After: time.Second}}
			}
			return fake.Script{ReadyAfter: 4 * time.Second, Exec: func(e fake.Exec) fake.ExecResult {
				if e.Cmd[0] == "ready" || !e.Ready {
					return fake.ExecResult{Code: 1}
				}
				return fake.ExecResult{}
			}}
		}})
		r := newRig(t, rt, t.TempDir()).start()
		p := newPod("web")
		p.Spec.InitContainers = []v1.Container{
			{Name: "side", Image: "app:1", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways), StartupProbe: check("started"), ReadinessProbe: check("ready")},
			{Name: "init", Image: "app:1"},
		}
		p.Spec.InitContainers[0].StartupProbe.FailureThreshold = 30
		r.set(p)
		r.phase(p.UID, v1.PodRunning, 30*time.Second)
		var order []string
		var at []time.Time
		for _, c := range rt.Calls(fake.Match{Method: fake.CreateContainer}) {
			order = append(order, c.Request.(*runtimeapi.CreateContainerRequest).Config.Metadata.Name)
			at = append(at, c.Start)
		}
		if strings.Join(order, " ") != "side init main" {
			t.Fatalf("created %v", order)
		}
		if wait := at[1].Sub(at[0]); wait < 4*time.Second || wait > 6*time.Second {
			t.Errorf("the init container came %v after the sidecar", wait)
		}
		if err := readyIs(r, p, v1.ConditionFalse); err != nil {
			t.Error(err)
		}
		<-time.After(10 * time.Second)
		if started := len(execs(rt, "started")); started > 6 {
			t.Errorf("4.4: the startup probe went on, %d runs", started)
		}
	})
}

// TestEveryEventHoldsForProbes: spec/probe.md 9.9. With Pods.EveryEvent each failure of a probe is an event in the same words.
func TestEveryEventHoldsForProbes(t *testing.T) {
	for _, every := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			rt := fake.New(fake.Options{Script: always(fake.Script{Exec: func(fake.Exec) fake.ExecResult { return fake.ExecResult{Code: 1, Stderr: "not yet"} }})})
			r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.Pods.EveryEvent = every }).start()
			p := newPod("web")
			p.Spec.Containers[0].ReadinessProbe = check("ready")
			r.set(p)
			r.phase(p.UID, v1.PodRunning, 10*time.Second)
			<-time.After(30 * time.Second)
			synctest.Wait()
			said := r.events.said("web Unhealthy")
			same := slices.Compact(slices.Clone(said))
			if every && (len(said) < 29 || len(same) != 1) || !every && (len(said) > 5 || len(same) != len(said)) {
				t.Errorf("every event %t: %q", every, said)
			}
		})
	}
}
