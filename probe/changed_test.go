package probe_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/probe"
)

// TestReplacedContainerHasThePodsPresentProbe is the second half of 1.4: in-place changes of a pod that keeps its UID (D9).
func TestReplacedContainerHasThePodsPresentProbe(t *testing.T) {
	bubble(t, "1.4: the container that runs keeps its probe, the next one has the new one", func(t *testing.T) {
		r := newRig(t).start()
		begin := time.Now()
		p := newPod("a", liveness())
		r.set(p, up("1", true, begin))
		r.m.AddPod(p)
		r.pass(5 * time.Second)
		changed := newPod("a", liveness(every(1)))
		r.set(changed, up("1", true, begin))
		r.m.AddPod(changed)
		r.pass(10 * time.Second)
		wantTimes(t, "liveness of the first", times(r.take(), probe.Liveness, begin), 0, 10)
		r.set(changed, up("2", true, time.Now()))
		r.pass(8500 * time.Millisecond) // the look at 20 s finds it
		wantTimes(t, "liveness of the second", times(r.take(), probe.Liveness, begin), 20, 21, 22, 23)
	})
	bubble(t, "1.4: a wide grid does not outlast its probe", func(t *testing.T) {
		r := newRig(t).start()
		r.pass(2 * time.Hour)
		begin := time.Now()
		hourly := func(p *v1.Probe) { p.PeriodSeconds = 3600 }
		p := newPod("a", liveness(hourly))
		r.publish(p, up("1", true, begin))
		r.m.AddPod(p)
		r.pass(time.Second)
		changed := newPod("a", liveness(every(2)))
		r.m.AddPod(changed)
		r.publish(changed, up("2", false, time.Now())) // its startup is not over
		r.pass(5 * time.Second)
		r.set(changed, up("2", true, time.Now())) // the manager is not told
		r.pass(5500 * time.Millisecond)
		wantTimes(t, "liveness", times(r.take(), probe.Liveness, begin), 0, 7, 9, 11)
	})
	bubble(t, "1.4, 2.3: nor does the first wait of an agent that has just started", func(t *testing.T) {
		r := newRig(t, func(o *probe.Options) { o.Rand = func() float64 { return 0.9 } }).start()
		begin := time.Now()
		p := newPod("a", liveness(every(3600)))
		r.publish(p, up("1", true, begin))
		r.m.AddPod(p)
		r.pass(time.Second)
		changed := newPod("a", liveness(every(2)))
		r.m.AddPod(changed)
		r.publish(changed, up("2", true, time.Now()))
		r.pass(7500 * time.Millisecond)
		if got := len(times(r.take(), probe.Liveness, begin)); got < 3 {
			t.Errorf("%d runs in 7 s", got)
		}
	})
	bubble(t, "1.4: the probe of a pod that changed before its first container", func(t *testing.T) {
		r := newRig(t).start()
		begin := time.Now()
		r.set(newPod("a", readiness()))
		r.m.AddPod(newPod("a", readiness()))
		r.pass(time.Second)
		changed := newPod("a", readiness(func(p *v1.Probe) { p.InitialDelaySeconds = 3 }))
		r.m.AddPod(changed)
		r.publish(changed, up("1", true, time.Now()))
		r.pass(5 * time.Second)
		wantTimes(t, "readiness", times(r.take(), probe.Readiness, begin), 4)
	})
	bubble(t, "1.4: a change that is taken back", func(t *testing.T) {
		r := newRig(t).start()
		begin := time.Now()
		for i, seconds := range []int32{10, 1, 10} {
			p := newPod("a", liveness(every(seconds)))
			r.set(p, up("1", true, begin))
			r.m.AddPod(p)
			if i == 2 {
				r.set(p, up("2", true, time.Now()))
			}
			r.pass(0)
		}
		r.pass(25 * time.Second)
		wantTimes(t, "liveness", times(r.take(), probe.Liveness, begin), 0, 10, 20)
	})
	bubble(t, "1.4: a probe that is gone ends at once, and one that is new begins", func(t *testing.T) {
		r := newRig(t).start()
		p := newPod("a", liveness(), readiness())
		r.set(p, up("1", true, time.Now()))
		r.m.AddPod(p)
		r.pass(time.Second)
		changed := newPod("a", liveness(), startup())
		r.set(changed, up("1", true, time.Now()))
		r.m.AddPod(changed)
		if got := fmt.Sprint(kindsOf(r.m.Explain(p.UID))); got != "[Liveness Startup]" {
			t.Errorf("%s", got)
		}
		if got := r.result(probe.Readiness, "1"); got != "none" {
			t.Errorf("the result of a probe that is gone: %s", got)
		}
		none := newPod("a")
		r.set(none, up("1", true, time.Now()))
		r.m.AddPod(none)
		r.take()
		r.pass(time.Minute)
		if e, runs := r.m.Explain(p.UID), r.take(); len(e)+len(runs) != 0 {
			t.Errorf("%+v, ran %v", e, runs)
		}
		r.m.AddPod(p)
		r.set(p, up("1", true, time.Now()))
		r.pass(time.Second)
		if e := r.m.Explain(p.UID); len(e) != 2 {
			t.Errorf("after it came back: %+v", e)
		}
	})
}

func kindsOf(list []probe.Explanation) (out []string) {
	for _, e := range list {
		out = append(out, e.Kind)
	}
	return out
}

// TestChangedProbeMovesToItsLane: 9.2: an exec probe that becomes a network probe, and back, while it is queued and runs.
func TestChangedProbeMovesToItsLane(t *testing.T) {
	bubble(t, "1.4, 9.2", func(t *testing.T) {
		r := newRig(t, func(o *probe.Options) { o.NetworkSlots, o.ExecSlots = 1, 1 }).start()
		r.does(slow(300 * time.Millisecond))
		command := func(p *v1.Probe) { p.TCPSocket, p.Exec = nil, &v1.ExecAction{} }
		for i := range 20 {
			var pods []*v1.Pod
			for n := range 4 {
				edits := []func(*v1.Probe){every(1)}
				if (i+n)%2 == 0 {
					edits = append(edits, command)
				}
				p := newPod(fmt.Sprint(n), liveness(edits...))
				r.m.AddPod(p)
				pods = append(pods, p)
			}
			for _, p := range pods {
				r.publish(p, up(fmt.Sprint(p.Name, " ", i), true, time.Now()))
			}
			r.pass(700 * time.Millisecond)
		}
		r.take()
		r.pass(10 * time.Second)
		if n := len(r.take()); n < 30 {
			t.Errorf("%d runs in 10 s of four probes in two slots", n)
		}
	})
}

// TestRunThatWasGivenUpKeepsItsProbe: 9.5: it returns when its worker has another probe already.
func TestRunThatWasGivenUpKeepsItsProbe(t *testing.T) {
	bubble(t, "1.4, 9.5", func(t *testing.T) {
		release := make(chan struct{})
		r := newRig(t).start()
		r.does(func(context.Context, probe.Target) (probe.Outcome, error) {
			<-release
			return bad, nil
		})
		p := newPod("a", liveness())
		r.publish(p, up("1", true, time.Now()))
		r.m.AddPod(p)
		r.pass(5 * time.Second)
		changed := newPod("a", liveness(func(p *v1.Probe) { p.TimeoutSeconds = 7 }))
		r.m.AddPod(changed)
		r.answers(good)
		r.publish(changed, up("2", true, time.Now()))
		r.pass(time.Second)
		if got := r.m.Problems(); len(got) != 1 || got[0].Waits != "the Liveness probe of container main to return, after its timeout of 1s" {
			t.Errorf("%+v", got)
		}
		close(release)
		r.pass(time.Second)
		if e := r.m.Explain(p.UID)[0]; e.LastResult != "Success" || len(r.m.Problems()) != 0 {
			t.Errorf("%+v, %+v", e, r.m.Problems())
		}
	})
}

// TestTimingIsAskedAgain: 9.6: a changed probe has a timing of its own, and a function that does not answer holds up no other pod.
func TestTimingIsAskedAgain(t *testing.T) {
	bubble(t, "1.4, 9.6", func(t *testing.T) {
		var asked atomic.Int32
		hangs := make(chan struct{})
		defer close(hangs)
		r := newRig(t, func(o *probe.Options) {
			o.Timing = func(pod *v1.Pod, _ string, _ probe.Kind, own probe.Timing) (probe.Timing, bool) {
				if pod.Name == "a" && asked.Add(1) == 3 {
					<-hangs
				}
				own.Period /= 2
				return own, true
			}
		}).start()
		begin := time.Now()
		other := newPod("b", readiness(every(2)))
		r.set(other, up("b", true, begin))
		r.m.AddPod(other)
		for i, seconds := range []int32{10, 4, 1} {
			p := newPod("a", liveness(every(seconds)))
			for range 3 {
				r.m.AddPod(p)
			}
			r.publish(p, up(fmt.Sprint("a", i), true, time.Now()))
			r.pass(9900 * time.Millisecond)
		}
		if n := asked.Load(); n != 3 {
			t.Errorf("asked %d times", n)
		}
		runs := r.take()
		if n := len(times(runs, probe.Readiness, begin)); n != 30 {
			t.Errorf("the other pod had %d runs in 30 s", n)
		}
		if n := len(times(runs, probe.Liveness, begin)); n != 2+5+10 {
			t.Errorf("%d runs, want 2 every 5 s, 5 every 2 s and 10 every second", n)
		}
	})
}
