package enginetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
)

// TestEveryEdgeOfAnExitIsMeasured: the engine measures every edge from the exit of a container to
// the next call, once per restart. Only the wait for a relist takes time (spec/pleg.md 11).
func TestEveryEdgeOfAnExitIsMeasured(t *testing.T) {
	for _, c := range []struct {
		name      string
		configure func(*podwright.Config)
		waits     bool
	}{
		{"stream", func(*podwright.Config) {}, false},
		{"no stream", func(c *podwright.Config) { c.Runtime = struct{ cri.RuntimeService }{c.Runtime} }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				measured := &edges{records: map[string][]record{}}
				rt := byContainer(map[string]fake.Script{
					"main": {Crashes: 1, Crash: fake.Exit{After: 3700 * time.Millisecond, Code: 1}},
					"job":  {Exit: &fake.Exit{After: 20350 * time.Millisecond}},
				})
				r := newRig(t, rt, t.TempDir(), c.configure, func(c *podwright.Config) { c.Observe.MeterProvider = measured }).start()
				job := newPod("job", "job")
				job.Spec.RestartPolicy = v1.RestartPolicyNever
				r.set(newPod("web"), newPod("leaver"), job)
				<-time.After(10 * time.Second)
				r.set(newPod("web"), job) // our own stop is not an exit that asks for a reaction
				r.phase(job.UID, v1.PodSucceeded, time.Minute)
				<-time.After(time.Minute)

				// web and leaver restart, the job does not.
				for edge, count := range map[string]int{"seen": 3, "refreshed": 3, "worker": 3, "call": 2} {
					values := measured.values("podwright_exit_" + edge + "_seconds")
					if len(values) != count {
						t.Errorf("edge %s: measured %v, want %d values", edge, values, count)
					}
					for _, v := range values {
						if waits := c.waits && edge == "seen"; waits != (v > 0) || v > 1 {
							t.Errorf("edge %s: %v, only the wait for a relist takes time, and that at most a second", edge, values)
						}
					}
				}
			})
		})
	}
}

// TestExitBeforeTheAgentIsNotSeen: the time since a container ended without an agent says nothing
// about how fast the next agent sees an exit, so it is not measured.
func TestExitBeforeTheAgentIsNotSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, byContainer(map[string]fake.Script{"main": {}}))
		first := n.agent()
		first.set(newPod("web"))
		first.phase("uid-web", v1.PodRunning, time.Minute)
		n.kill(first)
		if err := n.rt.Exit("uid-web", "main", fake.Exit{Code: 1}); err != nil {
			t.Fatal(err)
		}
		<-time.After(30 * time.Second)
		measured := &edges{records: map[string][]record{}}
		r := n.agent(func(c *podwright.Config) { c.Observe.MeterProvider = measured })
		r.set(newPod("web"))
		r.within(time.Minute, "the next container", func() error {
			if starts(n.rt, "uid-web") < 2 {
				return errBusy
			}
			return nil
		})
		<-time.After(time.Second)
		if seen, worker := measured.values("podwright_exit_seen_seconds"), measured.values("podwright_exit_worker_seconds"); len(seen) != 0 || len(worker) != 1 {
			t.Errorf("measured as seen %v, as worked on %v", seen, worker)
		}
		r.stop()
	})
}
