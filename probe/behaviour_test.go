package probe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/probe"
)

func every(seconds int32) func(*v1.Probe) { return func(p *v1.Probe) { p.PeriodSeconds = seconds } }

// TestThresholdsTurnResults drives whole probes; the tables are in internal/decide.
func TestThresholdsTurnResults(t *testing.T) {
	bubble(t, "edge case 1, 4.6: killed at the third failure in a row", func(t *testing.T) {
		r := newRig(t).start()
		r.answers(bad, bad, good, bad, bad, bad)
		p := newPod("a", liveness())
		r.publish(p, up("1", true, time.Now()))
		r.m.AddPod(p)
		r.pass(41 * time.Second)
		if got := r.result(probe.Liveness, "1"); got != "Success" {
			t.Errorf("after 5 runs: %s", got)
		}
		r.pass(10 * time.Second)
		if got := r.result(probe.Liveness, "1"); got != "Failure" {
			t.Errorf("after 6 runs: %s", got)
		}
		// 4.4, edge case 6: held until another container shows up, whatever the
		// reconciler does.
		r.take()
		r.publish(p, up("1", true, time.Now()))
		r.pass(time.Minute)
		if runs := r.take(); len(runs) != 0 {
			t.Errorf("ran %v while on hold", runs)
		}
		if got := r.result(probe.Liveness, "1"); got != "Failure" {
			t.Errorf("edge case 6: %s", got)
		}
		heard := r.heard()
		if len(heard) != 2 || heard[1].Result != probe.Failure || heard[1].UID != p.UID || heard[1].ID != cid("1") {
			t.Errorf("6.2: heard %+v", heard)
		}
	})
	bubble(t, "edge cases 5 and 7, 3.2: a new container starts from nothing", func(t *testing.T) {
		r := newRig(t).start()
		r.answers(bad)
		p := newPod("a", liveness(), readiness())
		r.publish(p, up("1", true, time.Now()))
		r.m.AddPod(p)
		r.pass(15 * time.Second) // two failures
		r.publish(p, down("1", 1))
		r.pass(0)
		r.publish(p, up("2", true, time.Now()))
		r.pass(time.Second)
		if live, ready := r.result(probe.Liveness, "2"), r.result(probe.Readiness, "2"); live != "Success" || ready != "Failure" {
			t.Errorf("new container: %s, %s", live, ready)
		}
		if old := r.result(probe.Liveness, "1"); old != "none" {
			t.Errorf("6.3, 7.8: the old result is %s", old)
		}
		r.pass(10 * time.Second) // the second failure of this one
		if live := r.result(probe.Liveness, "2"); live != "Success" {
			t.Errorf("killed by failures of the old container: %s", live)
		}
	})
	bubble(t, "3.1, edge cases 3 and 4: startup first, then at once", func(t *testing.T) {
		r := newRig(t).start()
		begin := time.Now()
		r.does(func(_ context.Context, target probe.Target) (probe.Outcome, error) {
			if target.Kind == probe.Startup && time.Since(begin) < 39*time.Second {
				return bad, nil
			}
			return good, nil
		})
		p := newPod("a", startup(every(5), func(p *v1.Probe) { p.FailureThreshold = 100 }), liveness(func(p *v1.Probe) { p.InitialDelaySeconds = 30 }))
		r.publish(p, up("1", false, begin))
		r.m.AddPod(p)
		r.pass(40 * time.Second)
		if got := r.result(probe.Startup, "1"); got != "Success" {
			t.Fatalf("startup: %s", got)
		}
		wantTimes(t, "liveness before", times(r.take(), probe.Liveness, begin))
		r.publish(p, up("1", true, begin))
		r.pass(25 * time.Second)
		runs := r.take()
		wantTimes(t, "liveness", times(runs, probe.Liveness, begin), 40, 50, 60)
		wantTimes(t, "startup, on hold", times(runs, probe.Startup, begin))
	})
	bubble(t, "row 8: the first run comes when the delay is over, not on the grid", func(t *testing.T) {
		r := newRig(t).start()
		begin := time.Now()
		p := newPod("a", readiness(func(p *v1.Probe) { p.InitialDelaySeconds = 3 }))
		r.set(p)
		r.m.AddPod(p)
		r.pass(1500 * time.Millisecond)
		// The status has cut the start to 1 s; the runtime knows better.
		s := r.set(p, up("1", true, begin.Add(time.Second)))
		v, _ := r.View(p.UID)
		v.Runtime = runtimeView("1", begin.Add(1500*time.Millisecond))
		r.put(v)
		r.m.Observed(p, s)
		r.pass(20 * time.Second)
		wantTimes(t, "readiness", times(r.take(), probe.Readiness, begin), 4.5, 14.5)
	})
	bubble(t, "2.6: ready right after the start, edge case 28: triggers do not pile up", func(t *testing.T) {
		r := newRig(t).start()
		begin := time.Now()
		p := newPod("a", readiness())
		r.set(p)
		r.m.AddPod(p)
		r.pass(3 * time.Second)
		r.does(slow(time.Second))
		for range 100 {
			r.publish(p, up("1", true, time.Now()))
		}
		r.pass(500 * time.Millisecond)
		for range 100 {
			r.publish(p, up("1", true, begin.Add(3*time.Second)))
		}
		r.pass(5 * time.Second)
		wantTimes(t, "readiness", times(r.take(), probe.Readiness, begin), 3)
		// A container that is not ready is asked once more per status, not twice.
		r.answers(bad)
		r.pass(35 * time.Second) // down
		r.take()
		r.does(func(ctx context.Context, target probe.Target) (probe.Outcome, error) {
			_, _ = slow(500*time.Millisecond)(ctx, target)
			return bad, nil
		})
		for range 50 {
			r.publish(p, up("1", true, begin.Add(3*time.Second)))
			r.pass(time.Millisecond)
		}
		r.pass(2 * time.Second)
		if n := len(r.take()); n != 2 {
			t.Errorf("edge case 28: %d runs", n)
		}
	})
}

// What becomes of each outcome of a handler (4.1).
func TestOutcomesCountAndTell(t *testing.T) {
	broken := errors.New("runtime is down")
	for _, c := range []struct {
		name    string
		outcome probe.Outcome
		err     error
		runs    int
		result  string
		event   string
	}{
		{"success", good, nil, 1, "Success", ""},
		{"warning", probe.Outcome{Result: probe.Success, Warning: true, Output: "redirect"}, nil, 1, "Success", "Warning ProbeWarning spec.containers{main} Readiness probe warning: redirect"},
		{"failure", bad, nil, 1, "Failure", "Warning Unhealthy spec.containers{main} Readiness probe failed: broken"},
		{"unknown", probe.Outcome{}, nil, 1, "Failure", ""},
		{"error (edge cases 9 and 19)", probe.Outcome{}, broken, 3, "Failure", "Warning Unhealthy spec.containers{main} Readiness probe could not be executed: runtime is down"},
	} {
		bubble(t, "4.1 "+c.name, func(t *testing.T) {
			r := newRig(t).start()
			r.does(func(context.Context, probe.Target) (probe.Outcome, error) { return c.outcome, c.err })
			p := newPod("a", readiness(func(p *v1.Probe) { p.FailureThreshold = 1 }))
			r.publish(p, up("1", true, time.Now()))
			r.m.AddPod(p)
			r.pass(0)
			if runs := r.take(); len(runs) != c.runs {
				t.Errorf("%d runs", len(runs))
			}
			if got := r.result(probe.Readiness, "1"); got != c.result {
				t.Errorf("result %s", got)
			}
			if said := strings.Join(r.said(), "|"); said != c.event {
				t.Errorf("said %q", said)
			}
			e := r.m.Explain(p.UID)[0]
			if wantRun := int32(1); c.err == nil && e.RunLength != wantRun || c.err != nil && e.RunLength != 0 {
				t.Errorf("run length %d", e.RunLength)
			}
			if e.Broken != (c.err != nil) {
				t.Errorf("broken: %v, of a run with the error %v", e.Broken, c.err)
			}
		})
	}
	bubble(t, "edge case 19: liveness does not kill while the runtime is down", func(t *testing.T) {
		r := newRig(t).start()
		r.does(func(context.Context, probe.Target) (probe.Outcome, error) { return probe.Outcome{}, broken })
		p := newPod("a", liveness())
		r.publish(p, up("1", true, time.Now()))
		r.m.AddPod(p)
		r.pass(10 * time.Minute)
		if got := r.result(probe.Liveness, "1"); got != "Success" {
			t.Errorf("result %s", got)
		}
	})
	bubble(t, "2.8: a panic is contained", func(t *testing.T) {
		r := newRig(t).start()
		r.does(func(context.Context, probe.Target) (probe.Outcome, error) { panic("oops") })
		p := newPod("a", liveness(every(1)))
		r.publish(p, up("1", true, time.Now()))
		r.m.AddPod(p)
		r.pass(4500 * time.Millisecond)
		if runs := r.take(); len(runs) != 5 {
			t.Errorf("%d runs", len(runs))
		}
		if got := r.result(probe.Liveness, "1"); got != "Success" {
			t.Errorf("result %s", got)
		}
		r.answers(good)
		r.pass(time.Second)
		if e := r.m.Explain(p.UID)[0]; e.LastResult != "Success" {
			t.Errorf("afterwards %+v", e)
		}
	})
	bubble(t, "9.9: repeated events come at doubling counts, a changed text at once", func(t *testing.T) {
		r := newRig(t).start()
		r.answers(bad)
		p := newPod("a", readiness(every(1)))
		p.Spec.InitContainers = []v1.Container{sidecar("side", readiness())}
		r.publish(p, up("1", true, time.Now()))
		r.m.AddPod(p)
		r.pass(9500 * time.Millisecond) // ten
		if said := r.said(); len(said) != 4 || !strings.HasSuffix(said[3], "broken (8 times in a row)") {
			t.Errorf("said %q", said)
		}
		r.answers(probe.Outcome{Result: probe.Failure, Output: "otherwise"}, good, bad)
		r.pass(3 * time.Second)
		if said := r.said(); len(said) != 2 || !strings.HasSuffix(said[0], "otherwise") || !strings.HasSuffix(said[1], "broken") {
			t.Errorf("said %q", said)
		}
	})
	bubble(t, "9.9: a recorder that counts repeats itself gets each event, in the same words", func(t *testing.T) {
		r := newRig(t, func(o *probe.Options) { o.EveryEvent = true }).start()
		r.answers(bad)
		p := newPod("a", readiness(every(1)))
		r.publish(p, up("1", true, time.Now()))
		r.m.AddPod(p)
		r.pass(9500 * time.Millisecond)
		said := r.said()
		if different := slices.Compact(slices.Clone(said)); len(said) != 10 || len(different) != 1 || !strings.HasSuffix(said[0], "broken") {
			t.Errorf("said %q", said)
		}
	})
}

func sidecar(name string, probes ...func(*v1.Container)) v1.Container {
	always := v1.ContainerRestartPolicyAlways
	c := v1.Container{Name: name, RestartPolicy: &always}
	for _, f := range probes {
		f(&c)
	}
	return c
}

// TestProbesEndWithTheirContainers is section 7 and 2.7.
func TestProbesEndWithTheirContainers(t *testing.T) {
	setup := func(t *testing.T) (*rig, *v1.Pod) {
		r := newRig(t).start()
		p := newPod("a", liveness(every(1)), readiness(every(1)), startup(every(1)))
		p.Spec.InitContainers = []v1.Container{sidecar("side", liveness(every(1)), readiness(every(1)))}
		r.publish(p, up("1", true, time.Now()), named("side", "2", true, time.Now()))
		r.m.AddPod(p)
		r.pass(time.Second)
		r.take()
		return r, p
	}
	kinds := func(runs []ran) string {
		n := map[string]int{}
		for _, run := range runs {
			n[run.container+" "+run.kind.String()]++
		}
		return fmt.Sprint(n)
	}
	bubble(t, "7.1, 7.2: liveness and startup end, readiness goes on", func(t *testing.T) {
		r, p := setup(t)
		r.m.StopLivenessAndStartup(p.UID)
		r.pass(2500 * time.Millisecond)
		if got := kinds(r.take()); got != "map[main Readiness:2 side Readiness:2]" {
			t.Errorf("ran %s", got)
		}
		if got := r.result(probe.Liveness, "1"); got != "none" {
			t.Errorf("7.1: liveness is %s", got)
		}
		r.answers(bad)
		r.pass(3 * time.Second)
		if got := r.result(probe.Readiness, "1"); got != "Failure" {
			t.Errorf("edge case 23: readiness is %s", got)
		}
		r.m.RemovePod(p.UID)
		r.take()
		r.pass(5 * time.Second)
		if got := kinds(r.take()); got != "map[]" || r.m.Explain(p.UID) != nil || r.result(probe.Readiness, "1") != "none" {
			t.Errorf("2.7, edge case 23: ran %s", got)
		}
	})
	bubble(t, "7.3, 7.4, edge case 23: a deletion that is only seen", func(t *testing.T) {
		r, p := setup(t)
		gone := p.DeepCopy()
		gone.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		r.set(gone, up("1", true, time.Now()), named("side", "2", true, time.Now()))
		r.pass(1100 * time.Millisecond)
		r.take()
		r.pass(2 * time.Second)
		if got := kinds(r.take()); got != "map[main Readiness:2 side Readiness:2]" {
			t.Errorf("ran %s", got)
		}
		// 7.3: from the first tick.
		late := newPod("b", liveness(every(1)))
		late.DeletionTimestamp = gone.DeletionTimestamp
		r.set(late, up("9", true, time.Now()))
		r.m.AddPod(late)
		r.pass(2 * time.Second)
		if e := r.m.Explain(late.UID); e != nil {
			t.Errorf("7.3: %+v", e)
		}
	})
	bubble(t, "2.7: the pod has ended, the container will not run again", func(t *testing.T) {
		r, p := setup(t)
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		r.publish(p, down("1", 0), named("side", "2", true, time.Now()))
		r.pass(0)
		if e := r.m.Explain(p.UID); len(e) != 2 || e[0].Container != "side" {
			t.Errorf("row 6: %+v", e)
		}
		s := r.set(p)
		s.Phase = v1.PodSucceeded
		r.m.Observed(p, s)
		r.pass(time.Second)
		if e := r.m.Explain(p.UID); e != nil {
			t.Errorf("row 2: %+v", e)
		}
	})
	bubble(t, "7.8: during a restart of all containers the workers stay", func(t *testing.T) {
		r, p := setup(t)
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		s := r.set(p, down("1", 0), named("side", "2", true, time.Now()))
		s.Conditions = []v1.PodCondition{{Type: v1.AllContainersRestarting, Status: v1.ConditionTrue}}
		r.m.Observed(p, s)
		r.pass(time.Second)
		if e := r.m.Explain(p.UID); len(e) != 5 {
			t.Errorf("%+v", e)
		}
		if got := r.result(probe.Readiness, "1"); got != "Failure" {
			t.Errorf("3.3, 7.7: %s", got)
		}
	})
	bubble(t, "2.7: CleanupPods keeps the pods it is given", func(t *testing.T) {
		r, p := setup(t)
		other := newPod("b", liveness(every(1)))
		r.publish(other, up("9", true, time.Now()))
		r.m.AddPod(other)
		r.m.CleanupPods(map[typesUID]struct{}{other.UID: {}})
		r.pass(time.Second)
		if r.m.Explain(p.UID) != nil || len(r.m.Explain(other.UID)) != 1 {
			t.Error("the wrong ones")
		}
		// The key is free again.
		r.m.AddPod(p)
		if len(r.m.Explain(p.UID)) != 5 {
			t.Error("not added again")
		}
	})
	bubble(t, "7.6: a result that comes late is thrown away", func(t *testing.T) {
		r := newRig(t).start()
		r.does(func(ctx context.Context, _ probe.Target) (probe.Outcome, error) {
			<-ctx.Done()
			return bad, nil
		})
		p := newPod("a", readiness(func(p *v1.Probe) { p.FailureThreshold, p.TimeoutSeconds = 1, 5 }))
		r.publish(p, up("1", true, time.Now()))
		r.m.AddPod(p)
		r.pass(time.Second)
		r.heard()
		r.m.RemovePod(p.UID)
		r.pass(10 * time.Second)
		if heard, said := r.heard(), r.said(); len(heard)+len(said) != 0 || r.result(probe.Readiness, "1") != "none" {
			t.Errorf("heard %v, said %v", heard, said)
		}
	})
}
