package probe_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/instrument/instrumenttest"
	"github.com/podwright/podwright/probe"
)

// TestMeterMayReadAtAnyTime: a meter may have one lock for what is recorded and for its readings.
func TestMeterMayReadAtAnyTime(t *testing.T) {
	bubble(t, "10.1: nothing is recorded while a reading would have to wait", func(t *testing.T) {
		mt, recorded := &instrumenttest.Meter{}, 0
		mt.OnRecord = func(string, float64) {
			recorded++
			mt.Read(t.Context()) // would deadlock under the lock
		}
		r := newRig(t, func(o *probe.Options) { o.Meter, o.NetworkSlots = mt, 1 }).start()
		r.answers(good, bad, good)
		p := newPod("a", readiness(every(1)))
		r.publish(p, up("1", true, time.Now()))
		r.m.AddPod(p)
		r.pass(2500 * time.Millisecond)
		if recorded == 0 {
			t.Error("nothing was recorded")
		}
	})
}

func TestMetricsGoWithTheirWorkers(t *testing.T) {
	bubble(t, "10.1: counts by result, durations of what did not fail, series that go with their worker", func(t *testing.T) {
		mt := &instrumenttest.Meter{}
		r := newRig(t, func(o *probe.Options) { o.Meter, o.NetworkSlots = mt, 1 }).start()
		r.answers(good, bad, probe.Outcome{}, good)
		p := newPod("a", readiness(every(1)))
		r.publish(p, up("1", true, time.Now()))
		r.m.AddPod(p)
		r.pass(3500 * time.Millisecond)
		labels := "container=main,namespace=default,pod=a,pod_uid=uid-a,probe_type=Readiness,result="
		want := map[string]float64{
			"prober_probe_total{" + labels + "failed}": 1, "prober_probe_total{" + labels + "successful}": 2, "prober_probe_total{" + labels + "unknown}": 1,
			"podwright_probe_workers": 1, "podwright_probe_queue_length": 0, "podwright_probe_running": 0,
			"podwright_probe_panics_total": 0, "podwright_probe_max_lateness_seconds": 0,
		}
		if diff := cmp.Diff(want, mt.Read(t.Context())); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		want = map[string]float64{
			"prober_probe_duration_seconds{probe_type=Readiness}": 3,
			"podwright_probe_lateness_seconds":                    4, // 9.3
		}
		if diff := cmp.Diff(want, mt.Take()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		// Lateness is measured (9.3): two at once, one slot.
		r.does(slow(300 * time.Millisecond))
		other := newPod("b", readiness())
		r.publish(other, up("2", true, time.Now()))
		r.m.AddPod(other)
		third := newPod("c", readiness())
		r.publish(third, up("3", true, time.Now()))
		r.m.AddPod(third)
		r.pass(100 * time.Millisecond)
		if seen := mt.Read(t.Context()); seen["podwright_probe_queue_length"] != 1 || seen["podwright_probe_running"] != 1 {
			t.Errorf("%v", seen)
		}
		r.pass(300 * time.Millisecond)
		if seen := mt.Read(t.Context()); seen["podwright_probe_max_lateness_seconds"] != .3 {
			t.Errorf("%v", seen)
		}
		for _, pod := range []*v1.Pod{p, other, third} {
			r.m.RemovePod(pod.UID)
		}
		for s := range mt.Read(t.Context()) {
			if strings.HasPrefix(s, "prober_probe_total") {
				t.Errorf("still %q", s)
			}
		}
	})
	if _, err := probe.New(probe.Options{Pods: &rig{}, Meter: &instrumenttest.Meter{Refuse: []string{"podwright_probe_lateness_seconds"}}}); err == nil {
		t.Error("a meter that refuses is no error")
	}
}

// 2.2, where each worker is.
func TestExplainTellsWhereEachWorkerIs(t *testing.T) {
	bubble(t, "2.2", func(t *testing.T) {
		r := newRig(t, func(o *probe.Options) { o.NetworkSlots = 1 }).start()
		r.does(slow(500 * time.Millisecond))
		begin := time.Now()
		p := newPod("a", liveness(), readiness(), startup())
		r.publish(p, up("1", true, begin))
		r.m.AddPod(p)
		r.pass(100 * time.Millisecond)
		state := func() (out []string) {
			for _, e := range r.m.Explain(p.UID) {
				out = append(out, e.Kind+" "+e.State)
			}
			return out
		}
		if got := state(); !slices.Equal(got, []string{"Startup waiting", "Liveness running", "Readiness queued"}) {
			t.Errorf("%q", got)
		}
		r.pass(2 * time.Second)
		if got := state(); !slices.Equal(got, []string{"Startup waiting", "Liveness waiting", "Readiness waiting"}) {
			t.Errorf("%q", got)
		}
		for _, e := range r.m.Explain(p.UID) {
			switch e.Kind {
			case "Startup":
				if e.Held == "" || e.Result != "Unknown" || !e.LastRun.IsZero() {
					t.Errorf("%+v", e)
				}
			default:
				if e.Held != "" || e.Result != "Success" || e.RunLength != 1 || e.LastOutput != "fine" || !e.NextDue.Equal(begin.Add(10*time.Second)) {
					t.Errorf("%+v", e)
				}
			}
		}
		// On hold, and ended.
		r.answers(bad)
		r.pass(30 * time.Second)
		for _, e := range r.m.Explain(p.UID) {
			if e.Kind == "Liveness" && (e.Held == "" || e.Result != "Failure") {
				t.Errorf("%+v", e)
			}
		}
		r.m.RemovePod(p.UID)
		if got := state(); got != nil {
			t.Errorf("%q", got)
		}
	})
}
