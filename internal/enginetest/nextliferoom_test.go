package enginetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

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
