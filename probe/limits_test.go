package probe_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/goroutinetest"
	"github.com/podwright/podwright/probe"
)

// hang never returns on its own, and takes its context's end only if told to.
func hang(heed bool, until <-chan struct{}) func(context.Context, probe.Target) (probe.Outcome, error) {
	return func(ctx context.Context, _ probe.Target) (probe.Outcome, error) {
		done := ctx.Done()
		if !heed {
			done = nil
		}
		select {
		case <-done:
			return probe.Outcome{}, ctx.Err()
		case <-until:
			return good, nil
		}
	}
}

// What runs at once is bounded (9.2), in order of due time (9.4).
func TestRunsAreBoundedInOrderOfDueTime(t *testing.T) {
	bubble(t, "9.2: 64 network and 16 exec slots, 8 of one pod", func(t *testing.T) {
		r := newRig(t).start()
		var mu sync.Mutex
		most, current := map[string]int{}, map[string]int{}
		r.does(func(ctx context.Context, target probe.Target) (probe.Outcome, error) {
			lane := "network"
			if target.Probe.Exec != nil {
				lane = "exec"
			}
			keys := []string{lane, "pod " + target.Pod.Name}
			mu.Lock()
			for _, k := range keys {
				current[k]++
				most[k] = max(most[k], current[k])
			}
			mu.Unlock()
			out, err := slow(100*time.Millisecond)(ctx, target)
			mu.Lock()
			for _, k := range keys {
				current[k]--
			}
			mu.Unlock()
			return out, err
		})
		big := newPod("big")
		var statuses []v1.ContainerStatus
		for i := range 20 {
			c := v1.Container{Name: fmt.Sprint("c", i), LivenessProbe: tcp()}
			big.Spec.Containers = append(big.Spec.Containers, c)
			statuses = append(statuses, named(c.Name, fmt.Sprint("big", i), true, time.Now()))
		}
		r.set(big, statuses...)
		r.m.AddPod(big)
		for i := range 200 {
			p := newPod(fmt.Sprint("p", i), liveness(), readiness(func(p *v1.Probe) { p.TCPSocket, p.Exec = nil, &v1.ExecAction{} }))
			r.set(p, up(fmt.Sprint("c", i), true, time.Now()))
			r.m.AddPod(p)
		}
		r.pass(9 * time.Second)
		if most["network"] != 64 || most["exec"] != 16 || most["pod big"] != 8 {
			t.Errorf("at most %v", most)
		}
		if n := len(r.take()); n != 420 {
			t.Errorf("%d runs", n)
		}
	})
	bubble(t, "9.4: liveness before readiness at equal times", func(t *testing.T) {
		r := newRig(t, func(o *probe.Options) { o.NetworkSlots = 1 })
		for i := range 5 {
			p := newPod(fmt.Sprint(i), readiness(), liveness())
			r.set(p, up(fmt.Sprint(i), true, time.Now()))
			r.m.AddPod(p)
		}
		r.start()
		r.pass(0)
		var kinds []probe.Kind
		for _, run := range r.take() {
			kinds = append(kinds, run.kind)
		}
		if len(kinds) != 10 || !slices.IsSortedFunc(kinds, func(a, b probe.Kind) int { return int(a) - int(b) }) {
			t.Errorf("ran %v", kinds)
		}
	})
	bubble(t, "9.3, show 4: 5,000 probes starved for 5 s kill no container", func(t *testing.T) {
		r := newRig(t).start()
		r.does(slow(450 * time.Millisecond)) // 64 slots are not enough
		for i := range 5000 {
			p := newPod(fmt.Sprint(i), liveness(every(1), func(p *v1.Probe) { p.FailureThreshold = 1 }))
			r.set(p, up(fmt.Sprint("c", i), true, time.Now()))
			r.m.AddPod(p)
		}
		r.pass(5 * time.Second)
		if n := len(r.take()); n > 64*12 {
			t.Errorf("9.2: %d runs in 5 s", n)
		}
		r.answers(good)
		r.pass(450 * time.Millisecond)
		ran := map[string]int{}
		for _, run := range r.take() {
			ran[run.pod]++
		}
		if n := slices.Max(slices.Collect(maps.Values(ran))); n != 1 || len(ran) < 4500 {
			t.Errorf("9.3: a late probe runs once: %d ran, up to %d times", len(ran), n)
		}
		r.pass(3 * time.Second)
		for _, a := range r.heard() {
			if a.Result == probe.Failure && a.Kind == probe.Liveness {
				t.Fatalf("killed %+v", a)
			}
		}
		if said := r.said(); len(said) != 0 {
			t.Errorf("said %q", said[:1])
		}
	})
}

// TestHungProbeLosesItsSlot is 9.5.
func TestHungProbeLosesItsSlot(t *testing.T) {
	bubble(t, "9.5, edge case 18: a timeout is a failure and not tried again", func(t *testing.T) {
		r := newRig(t).start()
		r.does(hang(true, nil))
		p := newPod("a", liveness())
		r.publish(p, up("1", true, time.Now()))
		r.m.AddPod(p)
		r.pass(1100 * time.Millisecond)
		e := r.m.Explain(p.UID)[0]
		if e.LastResult != "Failure" || e.LastOutput != "no answer within 1s" || len(r.take()) != 1 {
			t.Errorf("%+v", e)
		}
	})
	bubble(t, "9.10: a handler that does not return loses its slot", func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		r := newRig(t, func(o *probe.Options) { o.NetworkSlots = 1 }).start()
		r.does(hang(false, release))
		p := newPod("a", liveness())
		r.publish(p, up("1", true, time.Now()))
		r.m.AddPod(p)
		r.pass(0)
		r.does(func(context.Context, probe.Target) (probe.Outcome, error) { return good, nil })
		begin := time.Now()
		other := newPod("b", liveness())
		r.publish(other, up("2", true, time.Now()))
		r.m.AddPod(other)
		r.take()
		r.pass(25 * time.Second)
		runs := r.take()
		if len(runs) == 0 || runs[0].pod != "b" || runs[0].at.Sub(begin) != 500*time.Millisecond {
			t.Errorf("ran %v since %v", runs, begin)
		}
		for _, run := range runs {
			if run.pod == "a" {
				t.Error("a second call beside the one that hangs")
			}
		}
		// Three periods: the third failure in a row counts.
		if e := r.m.Explain(p.UID)[0]; e.Result != "Failure" {
			t.Errorf("%+v", e)
		}
		if e := r.m.Explain(other.UID)[0]; e.Result != "Success" {
			t.Errorf("%+v", e)
		}
	})
	for _, exec := range []bool{false, true} {
		bubble(t, fmt.Sprintf("9.10, IN1: 1,000 hanging probes delay no other, exec: %v", exec), func(t *testing.T) {
			r := newRig(t).start()
			r.does(func(ctx context.Context, target probe.Target) (probe.Outcome, error) {
				if target.Pod.Name == "web" {
					return good, nil
				}
				return hang(true, nil)(ctx, target)
			})
			spoil := func(p *v1.Probe) {
				if exec {
					p.TCPSocket, p.Exec = nil, &v1.ExecAction{}
				}
			}
			for i := range 1000 {
				p := newPod(fmt.Sprint("hog", i), readiness(every(1), spoil, func(p *v1.Probe) { p.TimeoutSeconds = 60 }))
				r.set(p, up(fmt.Sprint("hog", i), true, time.Now()))
				r.m.AddPod(p)
			}
			r.pass(0)
			web := newPod("web", readiness(every(1), spoil))
			r.publish(web, up("web", true, time.Now()))
			r.m.AddPod(web)
			var last time.Time
			for i := range 300 {
				r.pass(time.Second)
				for _, run := range r.take() {
					if run.pod != "web" {
						continue
					}
					if !last.IsZero() && run.at.Sub(last) > 1100*time.Millisecond {
						t.Fatalf("a run came %v after the one before", run.at.Sub(last))
					}
					last = run.at
				}
				if i > 2 && (last.IsZero() || time.Since(last) > 2*time.Second) {
					t.Fatal("the good pod is not probed")
				}
			}
		})
	}
	bubble(t, "9.5: retries stop when the period has passed", func(t *testing.T) {
		r := newRig(t).start()
		r.does(func(ctx context.Context, target probe.Target) (probe.Outcome, error) {
			_, _ = slow(700*time.Millisecond)(ctx, target)
			return probe.Outcome{}, fmt.Errorf("no")
		})
		p := newPod("a", liveness(every(1)))
		r.publish(p, up("1", true, time.Now()))
		r.m.AddPod(p)
		r.pass(1350 * time.Millisecond)
		if n := len(r.take()); n != 2 {
			t.Errorf("%d attempts", n)
		}
		r.pass(100 * time.Millisecond)
		if said := r.said(); len(said) != 1 {
			t.Errorf("said %q", said)
		}
	})
	bubble(t, "9.8: a stop cancels what runs, without result and event", func(t *testing.T) {
		r := newRig(t).start()
		r.does(hang(true, nil))
		p := newPod("a", liveness(func(p *v1.Probe) { p.TimeoutSeconds, p.FailureThreshold = 60, 1 }))
		r.publish(p, up("1", true, time.Now()))
		r.m.AddPod(p)
		r.pass(time.Second)
		begin := time.Now()
		r.stop()
		if took := time.Since(begin); took > 0 {
			t.Errorf("took %v", took)
		}
		if r.result(probe.Liveness, "1") != "Success" || len(r.said()) > 0 {
			t.Error("a cancelled probe gave a result")
		}
	})
	bubble(t, "9.8: at most 2 s, and what was found is remembered", func(t *testing.T) {
		release := make(chan struct{})
		r := newRig(t).start()
		p := newPod("a", readiness(every(1)))
		r.publish(p, up("1", true, time.Now()))
		r.m.AddPod(p)
		r.pass(30 * time.Second)
		r.does(hang(false, release))
		r.pass(1500 * time.Millisecond)
		begin := time.Now()
		r.stop()
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("took %v", took)
		}
		if f := r.facts["1 Readiness"]; time.Since(f.At) > 10*time.Second {
			t.Errorf("remembered %+v", f)
		}
		close(release)
	})
	bubble(t, "Run: a second call is refused", func(t *testing.T) {
		r := newRig(t).start()
		r.pass(0)
		if err := r.m.Run(t.Context()); err == nil {
			t.Error("no error")
		}
	})
}

// TestResults is section 6.
func TestResults(t *testing.T) {
	bubble(t, "6.1, 4.3: unchanged values are not announced", func(t *testing.T) {
		r := newRig(t).start()
		p := newPod("a", readiness(every(1)))
		r.publish(p, up("1", true, time.Now()))
		r.m.AddPod(p)
		r.pass(10 * time.Second)
		heard := r.heard()
		if len(heard) == 0 || len(heard) > 2 || heard[len(heard)-1].Result != probe.Success {
			t.Errorf("heard %+v", heard)
		}
	})
	bubble(t, "6.4, edge case 32: a blocked consumer holds up no probe and hears the latest", func(t *testing.T) {
		release := make(chan struct{})
		var r *rig
		r = newRig(t, func(o *probe.Options) {
			o.OnResult = func(ctx context.Context, a probe.Announcement) {
				<-release
				r.hear(ctx, a)
			}
		}).start()
		for i := range 50 {
			p := newPod(fmt.Sprint(i), readiness(every(1), func(p *v1.Probe) { p.FailureThreshold = 1 }))
			r.publish(p, up(fmt.Sprint(i), true, time.Now()))
			r.m.AddPod(p)
		}
		r.answers(good)
		r.pass(1500 * time.Millisecond)
		r.answers(bad)
		r.pass(time.Second)
		r.answers(good)
		r.take()
		r.pass(5 * time.Second)
		if n := len(r.take()); n != 250 {
			t.Errorf("%d runs while the consumer was blocked", n)
		}
		close(release)
		synctest.Wait()
		last := map[string]probe.Result{}
		for _, a := range r.heard() {
			if _, twice := last[a.ID.ID]; twice && a.ID.ID != "0" {
				t.Errorf("%s was heard of twice", a.ID)
			}
			last[a.ID.ID] = a.Result
		}
		for id, result := range last {
			if result != probe.Success {
				t.Errorf("%s: last heard %v", id, result)
			}
		}
		if len(last) != 50 {
			t.Errorf("heard of %d", len(last))
		}
	})
	bubble(t, "6.5: a missing result is no failure", func(t *testing.T) {
		r := newRig(t)
		if v, ok := r.m.Result(probe.Liveness, cid("1")); ok || v != probe.Unknown {
			t.Errorf("%v %v", v, ok)
		}
		p := newPod("a", startup())
		if v := r.m.Status(probe.Startup, p, "main", cid("1")); v != probe.Unknown {
			t.Errorf("%v", v)
		}
		if v := r.m.Status(probe.Startup, p, "unknown", cid("1")); v != probe.None {
			t.Error("a container that is not in the pod")
		}
	})
}

// TestTimingIsBoundedAndOverridable is 1.3 and 9.6.
func TestTimingIsBoundedAndOverridable(t *testing.T) {
	bubble(t, "1.3: zero and negative numbers are the defaults", func(t *testing.T) {
		r := newRig(t).start()
		r.answers(bad)
		begin := time.Now()
		p := newPod("a", liveness(func(p *v1.Probe) {
			p.PeriodSeconds, p.TimeoutSeconds, p.FailureThreshold, p.SuccessThreshold, p.InitialDelaySeconds = -5, -1, 0, 7, -3
		}), readiness(func(p *v1.Probe) {
			p.PeriodSeconds, p.TimeoutSeconds, p.FailureThreshold, p.SuccessThreshold = 0, 0, -1, 0
		}))
		r.publish(p, up("1", true, begin))
		r.m.AddPod(p)
		r.pass(25 * time.Second)
		wantTimes(t, "liveness", times(r.take(), probe.Liveness, begin), 0, 10, 20)
		if got := r.result(probe.Liveness, "1"); got != "Failure" {
			t.Errorf("after three failures: %s", got)
		}
	})
	subSecond := func(o *probe.Options) {
		o.Timing = func(_ *v1.Pod, _ string, k probe.Kind, own probe.Timing) (probe.Timing, bool) {
			return probe.Timing{Period: 200 * time.Millisecond, InitialDelay: 300 * time.Millisecond, Timeout: time.Hour}, k == probe.Readiness
		}
	}
	bubble(t, "9.6, edge case 30: 200 ms by option, others unaffected", func(t *testing.T) {
		r := newRig(t, subSecond).start()
		begin := time.Now()
		p := newPod("a", readiness(), liveness(every(1)))
		r.publish(p, up("1", true, begin))
		r.m.AddPod(p)
		r.pass(1150 * time.Millisecond)
		runs := r.take()
		wantTimes(t, "readiness", times(runs, probe.Readiness, begin), 0.3, 0.5, 0.7, 0.9, 1.1)
		wantTimes(t, "liveness", times(runs, probe.Liveness, begin), 0, 1)
		r.does(hang(true, nil)) // 10 periods at most
		r.pass(2300 * time.Millisecond)
		for _, e := range r.m.Explain(p.UID) {
			if e.Kind == "Readiness" && e.LastOutput != "no answer within 2s" {
				t.Errorf("%+v", e)
			}
		}
	})
	bubble(t, "9.6: bounds, and exec only if allowed", func(t *testing.T) {
		for allowed, want := range map[bool]int{false: 5, true: 41} {
			r := newRig(t, func(o *probe.Options) {
				o.SubSecondExec = allowed
				o.Timing = func(*v1.Pod, string, probe.Kind, probe.Timing) (probe.Timing, bool) { return probe.Timing{}, true }
			}).start()
			p := newPod("a", readiness(func(p *v1.Probe) { p.TCPSocket, p.Exec = nil, &v1.ExecAction{} }))
			r.publish(p, up("1", true, time.Now()))
			r.m.AddPod(p)
			r.pass(4050 * time.Millisecond)
			if n := len(r.take()); n != want {
				t.Errorf("allowed %v: %d runs, want %d", allowed, n, want)
			}
			r.stop()
		}
		if _, err := probe.New(probe.Options{MinPeriod: time.Millisecond, ExecSlots: -1, StartSpread: -1}); err == nil ||
			!strings.Contains(err.Error(), "Pods is required") || !strings.Contains(err.Error(), "MinPeriod") ||
			!strings.Contains(err.Error(), "ExecSlots") || !strings.Contains(err.Error(), "StartSpread") {
			t.Errorf("%v", err)
		}
	})
	bubble(t, "fast until ready", func(t *testing.T) {
		r := newRig(t, func(o *probe.Options) { o.FastUntilReady = 250 * time.Millisecond }).start()
		r.answers(bad, bad, bad, good, bad)
		begin := time.Now()
		p := newPod("a", readiness(func(p *v1.Probe) { p.FailureThreshold = 1 }))
		r.publish(p, up("1", true, begin))
		r.m.AddPod(p)
		r.pass(25 * time.Second)
		wantTimes(t, "readiness", times(r.take(), probe.Readiness, begin), 0, 0.25, 0.5, 0.75, 10.75, 20.75)
	})
}

// TestHeldCostNothing: edge case 31 and 9.1.
func TestHeldCostNothing(t *testing.T) {
	bubble(t, "edge case 31, 9.1", func(t *testing.T) {
		r := newRig(t).start()
		r.pass(0)
		before := goroutinetest.Count("podwright/probe")
		for i := range 10_000 {
			p := newPod(fmt.Sprint(i), startup())
			r.set(p, up(fmt.Sprint("c", i), false, time.Now()))
			r.m.AddPod(p)
		}
		r.pass(0)
		for range 5 {
			r.pass(7 * time.Second)
			if now := goroutinetest.Count("podwright/probe"); now > before {
				t.Errorf("%d goroutines, %d before", now, before)
			}
		}
		if n := len(r.take()); n != 10_000 {
			t.Errorf("%d runs", n)
		}
	})
}

// 10,000 containers that start over ten seconds are probed when their
// initial delay is over (row 8, 9.1).
func TestFirstRunComesWhenTheDelayIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		<-time.After(time.Minute) // the engine is not new
		r.does(slow(5 * time.Millisecond))
		const containers, delay = 10_000, 5 * time.Second
		started := make(map[string]time.Time, containers)
		pods := make([]*v1.Pod, containers)
		for i := range pods {
			pods[i] = newPod(fmt.Sprint(i), readiness(func(p *v1.Probe) { p.InitialDelaySeconds = 5; p.PeriodSeconds = 3600 }))
			r.set(pods[i])
			r.m.AddPod(pods[i])
		}
		for i, p := range pods {
			<-time.After(time.Millisecond)
			id := fmt.Sprint("c", i)
			started[id] = time.Now()
			r.publish(p, up(id, true, time.Now()))
		}
		r.pass(20 * time.Second)
		var worst time.Duration
		first := map[string]bool{}
		for _, run := range r.take() {
			if first[run.id] {
				continue
			}
			first[run.id] = true
			late := run.at.Sub(started[run.id].Add(delay))
			if late < 0 {
				t.Fatalf("%s ran %v early", run.id, -late)
			}
			worst = max(worst, late)
		}
		if len(first) != containers || worst > 50*time.Millisecond {
			t.Errorf("%d containers probed, the latest %v late", len(first), worst)
		}
		t.Logf("the latest first run was %v late", worst)
	})
}
