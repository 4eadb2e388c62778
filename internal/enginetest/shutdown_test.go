package enginetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/shutdown"
)

func withPriority(p *v1.Pod, n int32) *v1.Pod {
	p.Spec.Priority = &n
	return p
}

// TestShutdownStopsGroupsInOrder: section 16, node shutdown: groups stop one after the other, lowest
// priority first, each pod with min(spec, group seconds). The pods are Failed with the reason
// Terminated. The report is complete when the sinks have everything.
func TestShutdownStopsGroupsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root := fake.New(fake.Options{}), t.TempDir()
		r := newRig(t, rt, root).start()
		low, high, needed := newPod("low"), withPriority(newPod("high"), 500), withPriority(newPod("needed"), 2_000_000_000)
		low.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600)
		r.set(low, high, needed)
		for _, p := range []*v1.Pod{low, high, needed} {
			r.phase(p.UID, v1.PodRunning, time.Minute)
		}
		report, err := r.engine.Shutdown(t.Context(), shutdown.Plan{Groups: []shutdown.Group{
			{Priority: 2_000_000_000, Time: 5 * time.Second}, {Priority: 0, Time: 20 * time.Second}, {Priority: 1000, Time: time.Hour}, {Priority: 100, Time: 8 * time.Second},
		}})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range report.Pods {
			got = append(got, fmt.Sprintf("%s %d %ds %s %v%v%v %s", p.Name, p.Group, p.Grace, p.Phase, p.Stopped, p.Released, p.Acknowledged, p.Problem))
		}
		want := []string{
			"low 0 20s Failed truetruetrue ", "high 100 8s Failed truetruetrue ", "needed 2000000000 5s Failed truetruetrue ",
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("report:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if took := report.Ended.Sub(report.Began); took > time.Minute {
			t.Errorf("edge case 35: it took %v, the group without pods has an hour", took)
		}
		for _, p := range r.engine.Pods() {
			if p.Status.Reason != "Terminated" || p.Status.Message != shutdown.Message || !disrupted(&p) {
				t.Errorf("%s: %+v", p.Name, p.Status)
			}
			if phases, _ := r.sink.of(p.UID); phases[len(phases)-1] != v1.PodFailed {
				t.Errorf("%s: the sink has %v", p.Name, phases)
			}
		}
		if c := r.engine.NodeConditions(); c[len(c)-1].Status != v1.ConditionFalse {
			t.Errorf("conditions %+v", c)
		}
		if _, err := r.engine.Shutdown(t.Context(), shutdown.Plan{}); !errors.Is(err, podwright.ErrShuttingDown) {
			t.Errorf("a second shutdown: %v", err)
		}
		r.stop()

		// Pods that ended because the node shut down start again.
		again := newRig(t, rt, root).start()
		if last, err := again.engine.LastShutdown(); err != nil || !last.Began.Equal(report.Began) || !last.Ended.Equal(report.Ended) {
			t.Errorf("last shutdown %+v, %v", last, err)
		}
		again.set(low, high, needed)
		again.phase(low.UID, v1.PodRunning, time.Minute)
		again.phase(needed.UID, v1.PodRunning, time.Minute)
	})
}

// TestShutdownKeepsEnds: section 16: pods that have succeeded keep their phase, even after the next
// start.
func TestShutdownKeepsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root := byContainer(map[string]fake.Script{"job": {Exit: &fake.Exit{After: time.Second}}}), t.TempDir()
		job := newPod("job", "job")
		job.Spec.RestartPolicy = v1.RestartPolicyNever
		r := newRig(t, rt, root).start()
		r.set(job, newPod("web"))
		r.phase(job.UID, v1.PodSucceeded, time.Minute)
		r.phase("uid-web", v1.PodRunning, time.Minute)
		report, err := r.engine.Shutdown(t.Context(), shutdown.Plan{})
		if err != nil || r.pod(job.UID).Status.Phase != v1.PodSucceeded || len(report.Pods) != 1 {
			t.Errorf("report %+v, %v; job %+v", report, err, r.pod(job.UID).Status)
		}
		r.stop()
		again := newRig(t, rt, root).start()
		again.set(job, newPod("web"))
		again.phase("uid-web", v1.PodRunning, time.Minute)
		if p := again.pod(job.UID); p.Status.Phase != v1.PodSucceeded {
			t.Errorf("the job after the next start: %+v", p.Status)
		}
	})
}

// TestCancelledShutdownTakesPodsAgain: section 16: after a cancellation the engine takes pods again,
// and another shutdown works. A group that takes too long does not hold up the next one.
func TestCancelledShutdownTakesPodsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(map[string]fake.Script{"slow": {IgnoreTERM: true}})
		r := newRig(t, rt, t.TempDir())
		if _, err := r.engine.Shutdown(t.Context(), shutdown.Plan{}); !errors.Is(err, podwright.ErrNotRunning) {
			t.Errorf("before Run: %v", err)
		}
		r.start()
		if _, err := r.engine.Shutdown(t.Context(), shutdown.Plan{Groups: []shutdown.Group{{}}}); err == nil {
			t.Error("a plan without time was accepted")
		}
		slow := newPod("slow", "slow")
		slow.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600)
		r.set(slow)
		r.phase(slow.UID, v1.PodRunning, time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := r.engine.Shutdown(ctx, shutdown.Plan{Groups: []shutdown.Group{{Time: time.Minute}}})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if last, err := r.engine.LastShutdown(); err != nil || last.Began.IsZero() || !last.Ended.IsZero() {
			t.Errorf("last shutdown %+v, %v", last, err)
		}
		fresh := newPod("fresh")
		r.set(slow, fresh)
		r.phase(fresh.UID, v1.PodRunning, time.Minute)
		report, err := r.engine.Shutdown(t.Context(), shutdown.Plan{Groups: []shutdown.Group{{Time: 12 * time.Second}}})
		if err != nil || len(report.Pods) == 0 {
			t.Errorf("again: %+v, %v", report, err)
		}
		if text, err := json.Marshal(report); err != nil || !strings.Contains(string(text), `"acknowledged":true`) {
			t.Errorf("as JSON: %s, %v", text, err)
		}
	})
}
