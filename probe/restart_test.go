package probe_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/probe"
)

// TestResultsSurviveARestart is what holds right after a restart of the engine; the rows of section 8
// are in internal/decide.
func TestResultsSurviveARestart(t *testing.T) {
	bubble(t, "8.1, 8.3, 8.7, 8.8, edge case 24: ready stays ready, and nothing else is announced", func(t *testing.T) {
		r := newRig(t, func(o *probe.Options) { o.Rand = func() float64 { return 0.5 } })
		var pods []*v1.Pod
		for i := range 500 {
			p := newPod(fmt.Sprint(i), readiness(), liveness(), startup())
			id := fmt.Sprintf("c%d", i)
			rec := &probe.Record{Started: true}
			rec.Facts[probe.Readiness] = probe.Fact{Stored: probe.Success, Last: probe.Success, Run: 7, At: time.Now().Add(-time.Minute)}
			r.records[cid(id)] = rec
			// 8.8: before there is a worker.
			if got := r.m.Status(probe.Readiness, p, "main", cid(id)); got != probe.Success {
				t.Fatalf("8.8: %v", got)
			}
			if got := r.m.Status(probe.Startup, p, "main", cid(id)); got != probe.Success {
				t.Fatalf("8.8: %v", got)
			}
			r.set(p, up(id, true, time.Now().Add(-time.Hour)))
			r.m.AddPod(p)
			if got := r.result(probe.Readiness, id); got != "Success" {
				t.Fatalf("8.3: %s", got)
			}
			if got := r.result(probe.Startup, id); got != "Success" {
				t.Fatalf("8.2: %s", got)
			}
			pods = append(pods, p)
		}
		r.start()
		r.answers(bad, bad)
		r.pass(30 * time.Second) // runs at 5, 15, 25
		for _, a := range r.heard() {
			if a.Kind == probe.Readiness && a.Result == probe.Success || a.Kind == probe.Startup {
				t.Fatalf("told %+v", a)
			}
		}
		// 8.7: three real failures.
		if got := r.result(probe.Readiness, "c0"); got != "Failure" {
			t.Errorf("8.7: %s", got)
		}
		_ = pods
	})
	bubble(t, "8.4: one fresh probe decides", func(t *testing.T) {
		for _, answer := range []probe.Outcome{good, bad} {
			r := newRig(t)
			rec := &probe.Record{Started: true}
			rec.Facts[probe.Liveness] = probe.Fact{Stored: probe.Failure, Last: probe.Failure, At: time.Now()}
			r.records[cid("1")] = rec
			p := newPod("a", liveness())
			r.set(p, up("1", true, time.Now()))
			r.m.AddPod(p)
			if got := r.result(probe.Liveness, "1"); got != "Success" {
				t.Errorf("at once %s", got)
			}
			r.answers(answer)
			r.start()
			r.pass(time.Second)
			want := "Success"
			if answer.Result == probe.Failure {
				want = "Failure"
			}
			if got := r.result(probe.Liveness, "1"); got != want {
				t.Errorf("after one run %s, want %s", got, want)
			}
			r.stop()
		}
	})
	bubble(t, "edge case 25, 8.6: another container begins unready", func(t *testing.T) {
		r := newRig(t)
		rec := &probe.Record{Started: true}
		rec.Facts[probe.Readiness] = probe.Fact{Stored: probe.Success, At: time.Now()}
		r.records[cid("1")] = rec
		p := newPod("a", readiness())
		r.set(p, up("2", true, time.Now()))
		r.m.AddPod(p)
		if got := r.result(probe.Readiness, "2"); got != "Failure" {
			t.Errorf("%s", got)
		}
		if got := r.m.Status(probe.Readiness, p, "main", cid("3")); got != probe.Unknown {
			t.Errorf("status of yet another: %v", got)
		}
	})
	bubble(t, "edge case 26, 8.5: what the API says", func(t *testing.T) {
		r := newRig(t)
		for _, ready := range []bool{true, false} {
			p := newPod(fmt.Sprint("a", ready), readiness())
			id := fmt.Sprint("c", ready)
			cs := up(id, true, time.Now())
			cs.Ready = ready
			p.Status.ContainerStatuses = []v1.ContainerStatus{cs}
			r.set(p, up(id, true, time.Now()))
			r.m.AddPod(p)
			if got := r.result(probe.Readiness, id); (got == "Success") != ready {
				t.Errorf("ready %v: %s", ready, got)
			}
		}
	})
	bubble(t, "8.9, edge case 24: the first run is put off by at most 10 s", func(t *testing.T) {
		r := newRig(t, func(o *probe.Options) { o.Rand = func() float64 { return 0.9 } }).start()
		begin := time.Now()
		rec := &probe.Record{Started: true}
		rec.Facts[probe.Readiness] = probe.Fact{Stored: probe.Success, At: time.Now()}
		r.records[cid("1")] = rec
		p := newPod("a", readiness(every(60)), liveness(every(60)))
		r.set(p, up("1", true, begin))
		r.m.AddPod(p)
		r.pass(100 * time.Second)
		runs := r.take()
		wantTimes(t, "readiness", times(runs, probe.Readiness, begin), 9, 69)
		wantTimes(t, "liveness", times(runs, probe.Liveness, begin), 54)
	})
	bubble(t, "8.3: what is remembered, and that it is kept fresh", func(t *testing.T) {
		r := newRig(t).start()
		p := newPod("a", readiness())
		r.publish(p, up("1", true, time.Now()))
		r.m.AddPod(p)
		r.pass(time.Second)
		r.mu.Lock()
		f := r.facts["1 Readiness"]
		r.mu.Unlock()
		if f.Stored != probe.Success || f.Run != 1 || f.Last != probe.Success {
			t.Errorf("%+v", f)
		}
		r.pass(time.Hour)
		r.mu.Lock()
		old := time.Since(r.facts["1 Readiness"].At)
		r.mu.Unlock()
		if old > 3*time.Minute {
			t.Errorf("the record is %v old", old)
		}
	})
}
