package enginetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/fake"
)

// TestProbesRunOnceAfterARestart: spec/probe.md 2.1, 2.7: after a restart of the agent, the first probed
// container of a pod has ended for good. The probes of the others run once per period, and end with the pod.
func TestProbesRunOnceAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, fake.New(fake.Options{Script: func(l fake.Launch) fake.Script {
			s := fake.Script{Exec: func(fake.Exec) fake.ExecResult { return fake.ExecResult{} }}
			if l.Container == "job" {
				s.Exit = &fake.Exit{After: 5 * time.Second}
			}
			return s
		}}))
		pod := func() *v1.Pod {
			p := withPolicy(newPod("web", "job", "main"), v1.RestartPolicyOnFailure)
			p.Spec.Containers[0].ReadinessProbe, p.Spec.Containers[1].LivenessProbe = check("job"), check("live")
			return p
		}
		r := n.agent()
		r.set(pod())
		r.phase("uid-web", v1.PodRunning, time.Minute)
		<-time.After(20 * time.Second)
		n.kill(r)
		r = n.agent()
		r.set(pod())
		<-time.After(5 * time.Minute) // a sync each minute
		before := len(execs(n.rt, "live"))
		<-time.After(10 * time.Second)
		if got := len(execs(n.rt, "live")) - before; got > 11 {
			t.Errorf("%d runs of a probe in 10 periods", got)
		}
		if e, _ := r.engine.Explain("uid-web"); len(e.Probes) != 1 {
			t.Errorf("explained: %+v", e.Probes)
		}
	})
}
