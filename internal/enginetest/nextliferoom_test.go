package enginetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/shutdown"
)

// TestNextLifeIsCheckedForRoom: spec/runtime.md 21.1, AD5. The verdict on an earlier life does not count for the next one, which
// may ask for more.
func TestNextLifeIsCheckedForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root := byContainer(nil), t.TempDir()
		r := newRig(t, rt, root, roomFor("4")).start()
		a, b := sized(newPod("a"), "1", "64Mi"), sized(newPod("b"), "3", "64Mi")
		r.set(a, b)
		r.phase(a.UID, v1.PodRunning, time.Minute)
		r.phase(b.UID, v1.PodRunning, time.Minute)
		if _, err := r.engine.Shutdown(t.Context(), shutdown.Plan{}); err != nil {
			t.Fatal(err)
		}
		r.stop()
		r = newRig(t, rt, root, roomFor("4")).start()
		r.set(sized(a, "2", "64Mi"), b)
		<-time.After(2 * time.Minute)
		refused := 0
		for _, p := range []*v1.Pod{a, b} {
			if seen := r.pod(p.UID); seen.Status.Reason == "OutOfcpu" {
				refused++
			} else if seen.Status.Phase != v1.PodRunning {
				t.Errorf("%s: %+v", p.Name, seen.Status)
			}
		}
		<-time.After(10 * time.Minute)
		if list, err := rt.ListPodSandbox(t.Context(), nil); err != nil || len(list) != 1 {
			t.Errorf("%d sandboxes, the refused pod has left some: %v", len(list), err)
		}
		if n := given(r, a, b); n > 4 || refused != 1 {
			t.Errorf("%d refused, pods have %d CPUs of 4", refused, n)
		}
	})
}

// TestNextLifeWhileTheEarlierStops: AD5, 21.1. A pod that is removed and wanted again while it stops is judged when its next
// life begins, by what it asks for now. The earlier life keeps its room until then, and the verdict holds in the next agent.
func TestNextLifeWhileTheEarlierStops(t *testing.T) {
	for name, c := range map[string]struct {
		wants   string
		refused bool
	}{"asks for more": {"2", true}, "asks for the same": {"1", false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt, root := byContainer(map[string]fake.Script{"main": {OnTERM: fake.Exit{After: 20 * time.Second}}}), t.TempDir()
				r := newRig(t, rt, root, roomFor("4")).start()
				grace := int64(60)
				a, b, late := sized(newPod("a"), "1", "64Mi"), sized(newPod("b"), "3", "64Mi"), sized(newPod("late"), "1", "64Mi")
				a.Spec.TerminationGracePeriodSeconds = &grace
				r.set(a, b)
				r.phase(a.UID, v1.PodRunning, time.Minute)
				r.phase(b.UID, v1.PodRunning, time.Minute)
				r.set(b)
				<-time.After(5 * time.Second)
				r.set(sized(a, c.wants, "64Mi"), b)
				<-time.After(5 * time.Second)
				r.set(sized(a, c.wants, "64Mi"), b, late)
				<-time.After(5 * time.Second)
				if got := r.pod(late.UID); got != nil && got.Status.Phase == v1.PodRunning {
					t.Errorf("the room of a pod that still stops was given away: %+v", got.Status)
				}
				r.set(sized(a, c.wants, "64Mi"), b)
				<-time.After(2 * time.Minute)
				for _, when := range []string{"in this agent", "in the next"} {
					got := r.pod(a.UID)
					if refused := got != nil && got.Status.Reason == "OutOfcpu"; refused != c.refused || !refused && got.Status.Phase != v1.PodRunning {
						t.Errorf("%s: %+v, %s", when, got, r.explain(a.UID))
					}
					if n := given(r, a, b); n > 4 {
						t.Errorf("%s: pods have %d CPUs of 4", when, n)
					}
					if started := rt.Facts(a.UID, "main").Started; (started == 1) != c.refused {
						t.Errorf("%s: %d containers of it were started", when, started)
					}
					if when == "in this agent" {
						r.stop()
						r = newRig(t, rt, root, roomFor("3500m")).start() // less than before
						r.set(sized(a, c.wants, "64Mi"), b)
						<-time.After(2 * time.Minute)
					}
				}
			})
		})
	}
}
