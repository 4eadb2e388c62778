package enginetest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/fake"
)

// probedBy makes the probes of all kinds run a command.
func probedBy(p *v1.Pod, command string) *v1.Pod {
	p = p.DeepCopy()
	c := &p.Spec.Containers[0]
	c.StartupProbe, c.LivenessProbe, c.ReadinessProbe = check(command), check(command), check(command)
	return p
}

// TestRolledOutProbeComesWithItsImage: spec/probe.md 1.4, syncloop.md D9: a pod that gets another image under its UID, and the
// probes for it, is ready. The old probes would kill the new container again and again.
func TestRolledOutProbeComesWithItsImage(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed %v", killed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newHost(t, fake.New(fake.Options{Script: func(l fake.Launch) fake.Script {
					return fake.Script{Exec: func(e fake.Exec) fake.ExecResult {
						if e.Cmd[0] == fmt.Sprint("check", l.Number) {
							return fake.ExecResult{}
						}
						return fake.ExecResult{Code: 1}
					}}
				}}))
				r := n.agent()
				p := probedBy(newPod("web"), "check1")
				r.set(p)
				r.within(time.Minute, "ready", func() error { return readyIs(r, p, v1.ConditionTrue) })
				if killed { // the probes of an agent that found the container running
					n.kill(r)
					r = n.agent()
					r.set(p)
					<-time.After(time.Minute)
				}
				p = probedBy(p, "check2")
				p.Spec.Containers[0].Image = "app:2"
				r.set(p)
				<-time.After(5 * time.Minute)
				if err := readyIs(r, p, v1.ConditionTrue); err != nil {
					t.Error(err)
				}
				if got, want := r.restarts(p.UID), "main 2/1"; got != want {
					t.Errorf("%s, want %s", got, want)
				}
				p = p.DeepCopy()
				p.Spec.Containers[0].LivenessProbe, p.Spec.Containers[0].ReadinessProbe = nil, nil
				r.set(p)
				<-time.After(5 * time.Second)
				before := len(execs(n.rt, "check2"))
				<-time.After(5 * time.Minute)
				if got := len(execs(n.rt, "check2")); got != before || readyIs(r, p, v1.ConditionTrue) != nil {
					t.Errorf("%d runs of probes that the pod does not have any more, ready: %v", got-before, readyIs(r, p, v1.ConditionTrue) == nil)
				}
			})
		})
	}
}
