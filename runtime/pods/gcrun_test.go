package pods_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// TestCollectionWaitsForItsPolicy (IN1): a policy may wait, for example for its owner's next pass, while
// removals that it permitted continue. These end meanwhile, hold no lock, and are reported one by one.
func TestCollectionWaitsForItsPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, pod := crashing(t)
		if err := w.m.KillPod(t.Context(), pod, nil, nil); err != nil {
			t.Fatal(err)
		}
		defer w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.RemoveContainer}, Effect: fake.Effect{Delay: 3 * time.Second}})()
		var asking atomic.Int32
		told := 0
		ask := func() {
			if n := asking.Add(1); n != 1 {
				t.Errorf("%d calls of the policy at once", n)
			}
			<-time.After(2 * time.Second)
			asking.Add(-1)
		}
		began := time.Now()
		report, err := collect(t.Context(), w.m, pods.GCPolicy{
			SourcesReady: true, ContentShouldBeRemoved: func(types.UID) bool { return true },
			Permits: func(pods.GCAction) bool { ask(); return true },
			Done:    func(pods.GCAction, error) { ask(); told++ },
		})
		if err != nil || len(report.Containers) != 4 || told != len(report.Containers)+len(report.Sandboxes) {
			t.Errorf("%d removals were told, %+v, %v", told, report, err)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("the run took %v", took)
		}
	})
}
