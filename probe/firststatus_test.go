package probe_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/probe"
)

// TestFirstStatusKnowsTheOverriddenPeriod is 8.6, 8.8 and 9.6: the status before there is a worker says what
// the worker then says, also if the program gave the probe a longer period.
func TestFirstStatusKnowsTheOverriddenPeriod(t *testing.T) {
	bubble(t, "8.8, 9.6", func(t *testing.T) {
		r := newRig(t, func(o *probe.Options) {
			o.Timing = func(_ *v1.Pod, _ string, _ probe.Kind, own probe.Timing) (probe.Timing, bool) {
				own.Period = 10 * time.Minute
				return own, true
			}
		})
		rec := &probe.Record{Started: true}
		rec.Facts[probe.Readiness] = probe.Fact{Stored: probe.Success, Last: probe.Success, Run: 7, At: time.Now().Add(-7 * time.Minute)}
		r.records[cid("1")] = rec
		p := newPod("a", readiness())
		first := r.m.Status(probe.Readiness, p, "main", cid("1"))
		r.set(p, up("1", true, time.Now().Add(-time.Hour)))
		r.m.AddPod(p)
		if then := r.m.Status(probe.Readiness, p, "main", cid("1")); first != then {
			t.Errorf("first %v, then %v", first, then)
		}
	})
}
