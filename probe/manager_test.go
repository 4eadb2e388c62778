package probe_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/probe"
)

// bubble runs a test in virtual time.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func wantTimes(t *testing.T, what string, got []float64, want ...float64) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: ran at %v s, want %v", what, got, want)
	}
}

// App containers and sidecars, each kind by itself; no others.
func TestAppContainersAndSidecarsAreProbed(t *testing.T) {
	bubble(t, "1.1, 2.1", func(t *testing.T) {
		r := newRig(t).start()
		p := newPod("a", liveness(), readiness())
		p.Spec.InitContainers = []v1.Container{
			{Name: "init", LivenessProbe: tcp(), ReadinessProbe: tcp(), StartupProbe: tcp()},
			{Name: "side", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways), StartupProbe: tcp()},
		}
		p.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "eph", LivenessProbe: tcp()}}}
		now := time.Now()
		r.set(p, up("1", true, now), named("init", "2", false, now), named("side", "3", false, now), named("eph", "4", true, now))
		r.m.AddPod(p)
		r.m.AddPod(p) // 2.1: missing workers only
		r.pass(0)
		got := map[string]int{}
		for _, run := range r.take() {
			got[run.container+" "+run.kind.String()]++
		}
		if len(got) != 3 || got["main Liveness"] != 1 || got["main Readiness"] != 1 || got["side Startup"] != 1 {
			t.Errorf("ran %v", got)
		}
		if e := r.m.Explain(p.UID); len(e) != 3 {
			t.Errorf("explained: %+v", e)
		}
		// 2.1: one kind that exists does not hide the others.
		r.m.StopLivenessAndStartup(p.UID)
		r.m.AddPod(p)
		if e := r.m.Explain(p.UID); len(e) != 3 {
			t.Errorf("after adding again: %+v", e)
		}
	})
	bubble(t, "1.2 a container without a probe has no result of it", func(t *testing.T) {
		r := newRig(t).start()
		p := newPod("a", liveness())
		r.set(p, up("1", true, time.Now()))
		r.m.AddPod(p)
		r.pass(0)
		for _, k := range []probe.Kind{probe.Startup, probe.Readiness} {
			if got := r.result(k, "1"); got != "none" {
				t.Errorf("%v: %s", k, got)
			}
			if got := r.m.Status(k, p, "main", cid("1")); got != probe.None {
				t.Errorf("%v has a status", k)
			}
		}
	})
	bubble(t, "1.4 a changed spec is ignored until the container is added again", func(t *testing.T) {
		r := newRig(t).start()
		p := newPod("a", liveness())
		begin := time.Now()
		r.set(p, up("1", true, begin))
		r.m.AddPod(p)
		changed := newPod("a", liveness(func(p *v1.Probe) { p.PeriodSeconds = 1 }))
		r.set(changed, up("1", true, begin))
		r.m.AddPod(changed)
		r.pass(25 * time.Second)
		wantTimes(t, "liveness", times(r.take(), probe.Liveness, begin), 0, 10, 20)
	})
}

// TestRunsFollowTheGrid is when probes run.
func TestRunsFollowTheGrid(t *testing.T) {
	bubble(t, "2.3 the first run is delayed by random jitter in the engine's first period", func(t *testing.T) {
		chance := []float64{0.3, 0.75}
		r := newRig(t, func(o *probe.Options) {
			o.Rand = func() float64 { c := chance[0]; chance = chance[1:]; return c }
		}).start()
		begin := time.Now()
		a, b := newPod("a", liveness()), newPod("b", liveness())
		r.set(a, up("1", true, begin))
		r.set(b, up("2", true, begin))
		r.m.AddPod(a)
		r.m.AddPod(b)
		r.pass(19 * time.Second)
		wantTimes(t, "both", times(r.take(), probe.Liveness, begin), 3, 7.5, 13, 17.5)
		r.m.RemovePod(b.UID)
		// The engine is older than a period: at once.
		c := newPod("c", liveness())
		r.set(c, up("3", true, begin))
		r.m.AddPod(c)
		r.pass(0)
		wantTimes(t, "later", times(r.take(), probe.Liveness, begin), 19)
	})
	bubble(t, "2.3 a stop ends the wait", func(t *testing.T) {
		r := newRig(t, func(o *probe.Options) { o.Rand = func() float64 { return 0.99 } }).start()
		p := newPod("a", liveness(func(p *v1.Probe) { p.PeriodSeconds = 3600 }))
		r.set(p, up("1", true, time.Now()))
		r.m.AddPod(p)
		r.pass(time.Second)
		begin := time.Now()
		r.stop()
		if took := time.Since(begin); took > 0 {
			t.Errorf("stopping took %v", took)
		}
	})
	bubble(t, "2.3 StartSpread bounds it", func(t *testing.T) {
		r := newRig(t, func(o *probe.Options) {
			o.Rand, o.StartSpread = func() float64 { return 0.5 }, time.Second
		}).start()
		begin := time.Now()
		p := newPod("a", liveness())
		r.set(p, up("1", true, begin))
		r.m.AddPod(p)
		r.pass(12 * time.Second)
		wantTimes(t, "liveness", times(r.take(), probe.Liveness, begin), 0.5, 10.5)
	})
	bubble(t, "2.4, edge case 27: one run at a time, the next one right after a long one", func(t *testing.T) {
		r := newRig(t).start()
		r.does(slow(12 * time.Second))
		begin := time.Now()
		p := newPod("a", liveness(func(p *v1.Probe) { p.TimeoutSeconds = 30 }))
		r.set(p, up("1", true, begin))
		r.m.AddPod(p)
		r.pass(45 * time.Second)
		// Missed points 10 and 20 each give one run; 30 is on time for the one that
		// ended at 24, which was due at 20.
		wantTimes(t, "liveness", times(r.take(), probe.Liveness, begin), 0, 12, 24, 36)
	})
	bubble(t, "2.5, 2.6 a status of a container that is not ready runs the probe now and restarts the grid; several coalesce", func(t *testing.T) {
		r := newRig(t).start()
		begin := time.Now()
		p := newPod("a", readiness())
		r.does(func(context.Context, probe.Target) (probe.Outcome, error) { return bad, nil })
		r.set(p, up("1", true, begin))
		r.m.AddPod(p)
		r.pass(4 * time.Second)
		view, _ := r.View(p.UID)
		for range 10 {
			r.m.Observed(p, view.Status)
		}
		r.m.Observed(newPod("unknown"), view.Status)
		r.pass(16 * time.Second)
		wantTimes(t, "readiness", times(r.take(), probe.Readiness, begin), 0, 4, 14)
	})
}
