package enginetest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop/admission"
)

// steppedNode is an engine outside of a bubble, whose containers crash every second, and whose fake clock is stepped by two
// goroutines all the time. What hangs ends the test by its time limit, with the stacks.
type steppedNode struct {
	*rig
	runs atomic.Int64
	// going ends after the engine has.
	going  context.Context
	others sync.WaitGroup
}

// newSteppedNode starts the engine. called is called for each container that is made.
func newSteppedNode(t *testing.T, c *clocktesting.FakeClock, called func(), configure func(*podwright.Config)) *steppedNode {
	n := &steppedNode{}
	script := fake.Script{Crashes: 1 << 30, Crash: fake.Exit{After: time.Second, Code: 3}, ReadyAfter: 100 * time.Millisecond}
	rt := fake.New(fake.Options{Clock: c, Script: func(fake.Launch) fake.Script {
		called()
		n.runs.Add(1)
		return script
	}})
	n.rig = newRig(t, rt, t.TempDir(), func(o *podwright.Config) {
		o.Clock = c
		o.Pods.CrashLoopBackOff = pods.BackOffPolicy{Initial: time.Second, Max: time.Second}
		configure(o)
	}).start()
	going, end := context.WithCancel(context.WithoutCancel(t.Context()))
	n.going = going
	for i := range uint64(2) {
		random := rand.New(rand.NewPCG(1, i))
		n.every(100*time.Microsecond, func() { c.Step(time.Duration(1 + random.Int64N(int64(300*time.Millisecond)))) })
	}
	t.Cleanup(func() { n.stop(); end(); n.others.Wait() }) // the end of the engine needs the time as well
	return n
}

// every calls a function again and again, beside the engine.
func (n *steppedNode) every(period time.Duration, do func()) {
	n.others.Go(func() {
		tick := time.NewTicker(period)
		defer tick.Stop()
		for ; !timing.Ended(n.going.Done()); <-tick.C {
			do()
		}
	})
}

// live lets pods, with probes, run for some lives, of so many runs of containers each.
func (n *steppedNode) live(lives, runs int, names ...string) {
	n.t.Helper()
	var all []*v1.Pod
	for _, name := range names {
		pod := newPod(name)
		pod.Spec.Containers[0].ReadinessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"ready"}}}, PeriodSeconds: 1}
		all = append(all, pod)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range lives {
		n.set(all...)
		for end := n.runs.Load() + int64(runs); n.runs.Load() < end; {
			<-tick.C
		}
		n.set()
		for running := 1; running > 0; {
			<-tick.C
			containers, err := n.runtime.ListContainers(n.t.Context(), nil)
			if running = len(containers); err != nil {
				n.t.Fatal(err)
			}
		}
	}
}

// TestClockSteppedWhileTheEngineWorks: a test author's fake clock calls the functions of its timers, and fills their channels,
// under a lock that everybody needs who asks for the time. However it is stepped, and whoever is slow to answer, the engine
// never holds it up.
func TestClockSteppedWhileTheEngineWorks(t *testing.T) {
	t.Parallel()
	c := clocktesting.NewFakeClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	n := newSteppedNode(t, c, func() {}, func(o *podwright.Config) {
		o.Observe.Sinks = append(o.Observe.Sinks, hangingFor("sink"))
		o.Admission.Handlers = []admission.Handler{admission.HandlerFunc(func(r admission.Request) admission.Verdict {
			if strings.HasPrefix(r.Pod.Name, "late") {
				<-c.After(300 * time.Millisecond)
			}
			return admission.Verdict{}
		})}
	})
	n.every(100*time.Microsecond, func() { // an operator who looks all the time
		n.engine.Problems()
		n.explain("uid-late-0")
	})
	var names []string
	for i := range 5 {
		names = append(names, fmt.Sprint("late-", i), fmt.Sprint("sink-", i), fmt.Sprint("web-", i))
	}
	n.live(3, 45, names...)
}

// hangingFor is a sink that never answers for pods whose names begin in one way.
type hangingFor string

func (h hangingFor) Store(ctx context.Context, u status.Update) (status.StoreResult, error) {
	if strings.HasPrefix(u.Name, string(h)) {
		<-ctx.Done()
		return 0, context.Cause(ctx)
	}
	return status.Stored, nil
}
