package enginetest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop"
)

// remembering prepares a machine that runs two pods, then loses its runtime's
// records and its agent.
func remembering(t *testing.T) *host {
	n := newHost(t, fake.New(fake.Options{}))
	first := n.agent()
	first.set(newPod("a"), newPod("b"))
	first.phase("uid-a", v1.PodRunning, time.Minute)
	first.phase("uid-b", v1.PodRunning, time.Minute)
	<-time.After(2 * time.Second)
	n.kill(first)
	n.rt.LoseRecords()
	return n
}

// TestSilentSourceRunsFromMemory: architecture decision 6. If a source says nothing for 10 s, its pods run
// as they were last desired. What it says later counts.
func TestSilentSourceRunsFromMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := remembering(t)
		r := n.agent()
		<-time.After(9 * time.Second)
		if n.rt.Running("uid-a", "main") != 0 {
			t.Error("a source was given less than 10 s")
		}
		r.phase("uid-a", v1.PodRunning, 10*time.Second)
		r.phase("uid-b", v1.PodRunning, 10*time.Second)
		if r.problems() == nil {
			t.Error("no event says that the source is silent")
		}
		r.set(newPod("b"), newPod("c"))
		r.phase("uid-c", v1.PodRunning, 10*time.Second)
		r.within(time.Minute, "the unwanted pod to go", func() error {
			if r.pod("uid-a") != nil || n.rt.Running("uid-a", "main") != 0 {
				return errBusy
			}
			return nil
		})
		if starts(n.rt, "uid-b") != 2 || n.rt.Running("uid-b", "main") != 1 {
			t.Errorf("the pod that stayed was started %d times", starts(n.rt, "uid-b"))
		}
		if err := r.problems(); err != nil {
			t.Errorf("after the source spoke: %v", err)
		}
	})
}

// TestAnswerBeatsMemory: a pod that its source does not name never starts from memory, neither in
// this agent nor in the next one, whose source does not answer.
func TestAnswerBeatsMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := remembering(t)
		r := n.agent()
		<-time.After(5 * time.Second)
		r.set(newPod("b"))
		r.phase("uid-b", v1.PodRunning, 10*time.Second)
		<-time.After(2 * time.Second)
		n.kill(r)
		r = n.agent()
		<-time.After(time.Minute)
		if s := starts(n.rt, "uid-a"); s != 1 {
			t.Errorf("an unwanted pod was started %d times", s)
		}
		if n.rt.Running("uid-b", "main") != 1 || r.pod("uid-b") == nil {
			t.Error("the pod that is wanted does not run")
		}
	})
}

// TestForgetDesiredRunsNothingFromMemory: with ForgetDesired, the engine starts nothing for a silent
// source, and stops none of its pods.
func TestForgetDesiredRunsNothingFromMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := remembering(t)
		forget := func(c *podwright.Config) { c.Storage.ForgetDesired = true }
		r := n.agent(forget)
		<-time.After(time.Minute)
		if s := starts(n.rt, "uid-a"); s != 1 {
			t.Errorf("started %d times", s)
		}
		r.set(newPod("a"))
		r.phase("uid-a", v1.PodRunning, 10*time.Second)
		<-time.After(2 * time.Second)
		n.kill(r)
		n.agent(forget)
		<-time.After(10 * time.Minute)
		if n.rt.Running("uid-a", "main") != 1 {
			t.Error("a pod of a silent source was stopped")
		}
	})
}

// refused is a source whose server refuses connections.
type refused struct{}

func (refused) Name() string { return "channel" }

func (refused) Run(context.Context, func(context.Context, []*v1.Pod) error) error {
	return errors.New("connection refused")
}

// TestFailingSourceRunsFromMemory: SN5. A source whose Run fails each time has said nothing either.
func TestFailingSourceRunsFromMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := remembering(t)
		r := n.agent(func(c *podwright.Config) { c.Sources = []syncloop.Source{refused{}} })
		r.phase("uid-a", v1.PodRunning, 20*time.Second)
		r.phase("uid-b", v1.PodRunning, 10*time.Second)
		if err := r.problems(); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("the engine says of its source: %v", err)
		}
		<-time.After(time.Hour)
		if s, running := starts(n.rt, "uid-a"), n.rt.Running("uid-a", "main"); s != 2 || running != 1 {
			t.Errorf("after an hour: %d starts, %d run", s, running)
		}
	})
}
