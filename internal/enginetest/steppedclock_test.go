package enginetest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop/admission"
)

// TestClockSteppedWhileTheEngineWorks: a test author's fake clock calls the functions of its timers, and fills their channels,
// under a lock that everybody needs who asks for the time. However it is stepped, and whoever is slow to answer, the engine
// never holds it up. A clock that hangs ends this test by its time limit, with the stacks.
func TestClockSteppedWhileTheEngineWorks(t *testing.T) {
	t.Parallel()
	c := clocktesting.NewFakeClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	script := fake.Script{Crashes: 1 << 30, Crash: fake.Exit{After: time.Second, Code: 3}, ReadyAfter: 100 * time.Millisecond}
	var mu sync.Mutex
	runs := map[types.UID]int{}
	rt := fake.New(fake.Options{Clock: c, Script: func(l fake.Launch) fake.Script {
		mu.Lock()
		defer mu.Unlock()
		runs[l.PodUID]++
		return script
	}})
	ran := func(uid types.UID) int {
		mu.Lock()
		defer mu.Unlock()
		return runs[uid]
	}
	r := newRig(t, rt, t.TempDir(), func(o *podwright.Config) {
		o.Clock = c
		o.Pods.CrashLoopBackOff = pods.BackOffPolicy{Initial: time.Second, Max: time.Second}
		o.Observe.Sinks = append(o.Observe.Sinks, hangingFor("sink"))
		o.Admission.Handlers = []admission.Handler{admission.HandlerFunc(func(r admission.Request) admission.Verdict {
			if strings.HasPrefix(r.Pod.Name, "late") {
				<-c.After(300 * time.Millisecond)
			}
			return admission.Verdict{}
		})}
	}).start()
	stepped, end := context.WithCancel(context.WithoutCancel(t.Context()))
	var steppers sync.WaitGroup
	for i := range uint64(2) {
		random := rand.New(rand.NewPCG(1, i))
		steppers.Go(func() {
			tick := time.NewTicker(100 * time.Microsecond)
			defer tick.Stop()
			for stepped.Err() == nil {
				<-tick.C
				c.Step(time.Duration(1 + random.Int64N(int64(300*time.Millisecond))))
			}
		})
	}
	steppers.Go(func() { // an operator who looks all the time
		tick := time.NewTicker(100 * time.Microsecond)
		defer tick.Stop()
		for stepped.Err() == nil {
			<-tick.C
			r.engine.Problems()
			r.explain("uid-late-0")
		}
	})
	t.Cleanup(func() { r.stop(); end(); steppers.Wait() }) // the end of the engine needs the time as well

	var all []*v1.Pod
	for i := range 5 {
		for _, kind := range []string{"late", "sink", "web"} {
			pod := newPod(fmt.Sprintf("%s-%d", kind, i))
			pod.Spec.Containers[0].ReadinessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"ready"}}}, PeriodSeconds: 1}
			all = append(all, pod)
		}
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for life := range 5 {
		r.set(all...)
		for _, pod := range all {
			for ran(pod.UID) < 6*(life+1) {
				<-tick.C
			}
		}
		r.set()
		for running := 1; running > 0; {
			<-tick.C
			containers, err := rt.ListContainers(t.Context(), nil)
			if running = len(containers); err != nil {
				t.Fatal(err)
			}
		}
	}
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
