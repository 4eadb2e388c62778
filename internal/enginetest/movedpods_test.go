package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop/admission"
)

// TestMovedPodRunsAtItsNewSource: PS6, IN10. A pod is taken from one source and given to another one, with its UID, and neither
// says anything after that. It ends at the one and then is the other's, judged by its policy, with every sink, and whether it is
// moved in one process, before a restart or while no agent runs.
func TestMovedPodRunsAtItsNewSource(t *testing.T) {
	for _, container := range []string{"main", "job"} {
		for _, restart := range []string{"none", "while it moves", "before it moves"} {
			for _, allowed := range []bool{true, false} {
				for _, broken := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s, restart %s, allowed %t, sink down %t", container, restart, allowed, broken), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { moved(t, container, restart, allowed, broken) })
					})
				}
			}
		}
	}
}

func moved(t *testing.T, container, restart string, allowed, broken bool) {
	rt, root := byContainer(map[string]fake.Script{"job": {Exit: &fake.Exit{After: time.Second}}, "main": {IgnoreTERM: true}}), t.TempDir()
	agent := func() tenancy {
		return newTenancy(t, rt, root, func(c *podwright.Config) {
			if broken {
				c.Observe.Sinks = append(c.Observe.Sinks, status.SinkFunc(func(context.Context, status.Update) (status.StoreResult, error) { return 0, errors.New("no") }))
			}
		})
	}
	r := agent()
	pod, phase, reason, count := newPod("web", container), v1.PodRunning, "", 2
	if container == "job" {
		pod.Spec.RestartPolicy, phase = v1.RestartPolicyNever, v1.PodSucceeded
	}
	r.asks()
	r.set(pod)
	r.phase(pod.UID, phase, time.Minute)
	<-time.After(time.Minute)
	heir := pod.DeepCopy()
	heir.Name = "moved"
	if !allowed {
		privileged(heir)
		phase, reason, count = v1.PodFailed, admission.ReasonPodSecurity, 1
	}
	if restart == "before it moves" {
		r.stop()
		r = agent()
	}
	r.set()
	r.asks(heir)
	if restart == "while it moves" {
		<-time.After(5 * time.Second)
		r.stop()
		r = agent()
		r.set()
		r.asks(heir)
	}
	is := func() error {
		p := r.pod(pod.UID)
		if p == nil {
			return errors.New("it is not known")
		}
		if s := p.Status; p.Name != "moved" || s.Phase != phase || s.Reason != reason || starts(rt, pod.UID) != count {
			return fmt.Errorf("%s is %s %s with %d starts: %s, problems %v", p.Name, s.Phase, s.Reason, starts(rt, pod.UID), r.explain(pod.UID), r.engine.Problems())
		}
		return nil
	}
	r.within(5*time.Minute, "its life at the new source", is)
	<-time.After(10 * time.Minute)
	if err := is(); err != nil {
		t.Errorf("in the end: %v", err)
	}
}
