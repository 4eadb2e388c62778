package enginetest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
)

// calls counts runtime calls per minute.
type calls struct {
	// lists of everything, health checks, and calls about one pod.
	lists, health, perPod float64
}

// idleCalls runs pods in which nothing happens and counts the calls made over
// a span of virtual time.
func idleCalls(t *testing.T, pods int, span time.Duration, configure ...func(*podwright.Config)) (perMinute calls) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		r := newRig(t, rt, t.TempDir(), configure...).start()
		var wanted []*v1.Pod
		for i := range pods {
			wanted = append(wanted, newPod(fmt.Sprintf("p%03d", i)))
		}
		r.set(wanted...)
		for _, p := range wanted {
			r.phase(p.UID, v1.PodRunning, time.Minute)
		}
		<-time.After(time.Minute) // the aftermath of the start ends
		begin := time.Now()
		<-time.After(span)
		for _, c := range rt.Calls(fake.Match{Func: func(c fake.Call) bool { return c.Start.After(begin) }}) {
			switch count := 1 / span.Minutes(); {
			case c.Method == fake.Status:
				perMinute.health += count
			case wholeList(c):
				perMinute.lists += count
			default:
				perMinute.perPod += count
			}
		}
	})
	return perMinute
}

// wholeList reports whether a call lists everything.
func wholeList(c fake.Call) bool {
	switch r := c.Request.(type) {
	case interface {
		GetFilter() *runtimeapi.PodSandboxFilter
	}:
		return r.GetFilter() == nil
	case interface {
		GetFilter() *runtimeapi.ContainerFilter
	}:
		return r.GetFilter() == nil
	}
	return false
}

// TestIdlePodsCostNoCalls: pods in which nothing happens cost no calls of their own, neither in
// relists nor at their regular sync (B6, PI12). With an event stream, the whole node costs a list
// every 5 s (B7) and two a minute for housekeeping and garbage collection; without one, it costs a
// list every second.
func TestIdlePodsCostNoCalls(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		pods      int
		configure func(*podwright.Config)
		lists     float64
	}{
		{"stream", 110, func(*podwright.Config) {}, 2*12 + 4},
		{"no stream", 10, func(c *podwright.Config) { c.Runtime = struct{ cri.RuntimeService }{c.Runtime} }, 2*60 + 4},
		{"stream, constant period", 10, func(c *podwright.Config) { c.PLEG.QuietPeriod = time.Second }, 2*60 + 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := idleCalls(t, c.pods, 5*time.Minute, c.configure)
			if got.perPod > 0 || got.lists > c.lists*1.05 || got.lists < c.lists/2 || got.health > 12.5 {
				t.Errorf("per minute %+v, want %v lists, 12 health checks, nothing else", got, c.lists)
			}
		})
	}
}

// TestIdleNodeNoticesLeftovers: a pod that no source wants appears long after housekeeping stopped
// listing running pods. A relist notices it, and the engine removes it with its remains
// (spec/cleanup.md 3.14), even if it does not run.
func TestIdleNodeNoticesLeftovers(t *testing.T) {
	for _, dead := range []bool{false, true} {
		t.Run(fmt.Sprintf("dead=%v", dead), func(t *testing.T) { leftoverOnIdleNode(t, dead) })
	}
}

func leftoverOnIdleNode(t *testing.T, dead bool) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		r := newRig(t, rt, t.TempDir()).start()
		r.set(newPod("a"))
		r.phase("uid-a", v1.PodRunning, time.Minute)
		// Choose a time when garbage collection is not about to run.
		<-time.After(5*time.Minute + 20*time.Second)
		id, err := rt.RunPodSandbox(t.Context(), &runtimeapi.PodSandboxConfig{
			Metadata: &runtimeapi.PodSandboxMetadata{Name: "late", Namespace: "default", Uid: "uid-late"},
			Labels: map[string]string{
				runtime.LabelPodUID: "uid-late", runtime.LabelPodName: "late", runtime.LabelPodNamespace: "default", runtime.LabelOwner: "n1",
			},
		}, "")
		if err == nil && dead {
			err = rt.StopPodSandbox(t.Context(), id)
		}
		if err != nil {
			t.Fatal(err)
		}
		r.within(10*time.Second, "the left-over pod to go", func() error {
			sandboxes, err := rt.ListPodSandbox(t.Context(), nil)
			if err == nil && len(sandboxes) != 1 {
				err = fmt.Errorf("%d sandboxes", len(sandboxes))
			}
			return err
		})
		if p := r.pod("uid-a"); p == nil || p.Status.Phase != v1.PodRunning {
			t.Errorf("the pod that is wanted: %+v", p)
		}
	})
}

// BenchmarkIdleCalls is TestIdlePodsCostNoCalls over a virtual hour, for the record.
func BenchmarkIdleCalls(b *testing.B) {
	for b.Loop() {
		var perMinute calls
		// A synctest bubble needs a test.
		always := func(string, string) (bool, error) { return true, nil }
		ok := testing.RunTests(always, []testing.InternalTest{{Name: "idle", F: func(t *testing.T) { perMinute = idleCalls(t, 110, time.Hour) }}})
		if !ok {
			b.Fatal("the run failed")
		}
		b.ReportMetric(perMinute.lists, "list-calls/min")
		b.ReportMetric(perMinute.health, "health-calls/min")
		b.ReportMetric(perMinute.perPod, "pod-calls/min")
	}
	b.ReportMetric(0, "ns/op")
}
