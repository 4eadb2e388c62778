package pods_test

import (
	"testing"
	"testing/synctest"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// spec/runtime.md 1.3, cleanup.md CG3: names that the runtime had reserved made a run skip to a higher attempt than that of the
// run after it. Garbage collection keeps the later run, whose restart count is higher.
func TestCollectionAfterReservedNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		free := w.fake.Inject(fake.Fault{
			Match: fake.Match{Method: fake.CreateContainer, Func: func(c fake.Call) bool {
				return c.Request.(*runtimeapi.CreateContainerRequest).GetConfig().GetMetadata().GetAttempt() < 2
			}},
			Effect: fake.Effect{Err: runtime.ErrAlreadyExists},
		})
		pod := newPod()
		exits := func() (id string) {
			for w.state(pod) != "app:running" {
				w.syncAll(pod)
				pass(second)
			}
			id = w.read(pod).Container("app").ID.ID
			if err := w.fake.Exit(pod.UID, "app", fake.Exit{Code: 1}); err != nil {
				t.Fatal(err)
			}
			pass(second)
			return id
		}
		exits()
		free()
		last := exits()
		if _, err := collect(t.Context(), w.m, pods.GCPolicy{SourcesReady: true}); err != nil {
			t.Fatal(err)
		}
		left := w.read(pod).Containers
		if len(left) != 1 || left[0].ID.ID != last || left[0].RestartCount != 1 {
			for _, c := range left {
				t.Errorf("%s %s #%d is left, want %s", c.ID.ID, c.State, c.RestartCount, last)
			}
		}
	})
}
