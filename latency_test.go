package podwright_test

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
)

// TestExitLatency: every edge from the exit of a container to the next call is
// measured, once per restart, and only the wait for a relist takes time
// (spec/pleg.md 11).
func TestExitLatency(t *testing.T) {
	for _, c := range []struct {
		name      string
		configure func(*podwright.Config)
		seen      time.Duration
	}{
		{"stream", func(*podwright.Config) {}, 0},
		// The exit is 700 ms after a relist, which come every second.
		{"no stream", func(c *podwright.Config) { c.Runtime = struct{ runtime.RuntimeService }{c.Runtime} }, 300 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				measured := &edges{records: map[string][]record{}}
				rt := byContainer(map[string]fake.Script{
					"main": {Crashes: 1, Crash: fake.Exit{After: 3700 * time.Millisecond, Code: 1}},
					"job":  {Exit: &fake.Exit{After: 20 * time.Second}},
				})
				r := newRig(t, rt, t.TempDir(), c.configure, func(c *podwright.Config) { c.MeterProvider = measured }).start()
				job := newPod("job", "job")
				job.Spec.RestartPolicy = v1.RestartPolicyNever
				r.set(newPod("web"), newPod("leaver"), job)
				<-time.After(10 * time.Second)
				r.set(newPod("web"), job) // a stop of our own is no exit to react to
				r.phase(job.UID, v1.PodSucceeded, time.Minute)
				<-time.After(time.Minute)

				// web and leaver restart, the job does not.
				for edge, want := range map[string]struct {
					count int
					value float64
				}{
					"seen": {3, c.seen.Seconds()}, "refreshed": {3, 0}, "worker": {3, 0}, "call": {2, 0},
				} {
					values := measured.values("podwright_exit_" + edge + "_seconds")
					if len(values) != want.count {
						t.Errorf("edge %s: measured %v, want %d values", edge, values, want.count)
					}
					for i, v := range values {
						// The job ends at a whole second, with a relist.
						if v != want.value && !(edge == "seen" && i == 2 && v < 1) {
							t.Errorf("edge %s: %v, want %v", edge, values, want.value)
						}
					}
				}
			})
		})
	}
}
