package enginetest_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

// The moments at which the agent of a takeover is killed.
const (
	never         = "never"
	whileStopping = "while it stops"
	during        = "during the takeover"
	after         = "after the takeover"
)

// TestPodThatASourceTakesOverStartsAgainWhenItIsBack: M4, S5. A pod stops while another source
// wants a pod with its name or UID. Afterwards its UID begins a new life, whatever its policy, and
// whether or not the agent was killed meanwhile.
func TestPodThatASourceTakesOverStartsAgainWhenItIsBack(t *testing.T) {
	t.Parallel()
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever} {
		for _, other := range []types.UID{"uid-web", "uid-other"} {
			for _, killed := range []string{never, whileStopping, during, after} {
				t.Run(fmt.Sprintf("%s,%s,killed %s", policy, other, killed), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { takeOver(t, policy, other, killed) })
				})
			}
		}
	}
}

// stronger is a source that takes names from all others.
type stronger struct{ *source.Channel }

// Precedence returns one above all others.
func (stronger) Precedence() syncloop.Precedence { return syncloop.PrecedenceInProcess + 1 }

// takeOver makes a second source replace a pod with one that has this UID, and then give the place
// back. killed says when the agent is killed.
func takeOver(t *testing.T, policy v1.RestartPolicy, other types.UID, killed string) {
	n := newHost(t, byContainer(map[string]fake.Script{"slow": {OnTERM: fake.Exit{After: 3 * time.Second, Code: 143}}}))
	var strong *source.Channel
	agent := func() *rig {
		strong = source.NewChannel(source.ChannelOptions{NodeName: "n1", Name: "a"})
		return n.agent(func(c *podwright.Config) { c.Sources = append(c.Sources, stronger{strong}) })
	}
	weak := func() *v1.Pod { return withPolicy(newPod("web", "slow"), policy) }
	taken := withPolicy(newPod("web", "slow"), policy)
	taken.UID = other
	taken.Spec.Containers[0].Image = "app:2"
	set := func(pods ...*v1.Pod) {
		if err := strong.Set(t.Context(), pods); err != nil {
			t.Fatal(err)
		}
	}
	running := func(r *rig, uid types.UID) {
		t.Helper()
		r.within(2*time.Minute, "running "+string(uid), func() error {
			if n.rt.Running(uid, "slow") != 1 {
				return errors.New(r.explain(uid))
			}
			return nil
		})
	}
	r := agent()
	set()
	r.set(weak())
	running(r, "uid-web")
	<-time.After(2 * time.Second)
	set(taken)
	if killed == whileStopping {
		<-time.After(time.Second)
		n.kill(r)
		r = agent()
		r.set(weak())
		set(taken)
	}
	running(r, other)
	<-time.After(5 * time.Second)
	if killed == during {
		n.kill(r)
		r = agent()
		r.set(weak())
		set(taken)
		<-time.After(5 * time.Second)
	}
	set()
	if killed == after {
		<-time.After(time.Second)
		n.kill(r)
		r = agent()
		r.set(weak())
		set()
	}
	<-time.After(20 * time.Second)
	running(r, "uid-web")
	r.phase("uid-web", v1.PodRunning, 10*time.Second)
	if c := r.pod("uid-web").Status.ContainerStatuses[0]; policy != v1.RestartPolicyAlways && c.RestartCount != 0 {
		t.Errorf("the new life begins with %d restarts", c.RestartCount)
	}
}
