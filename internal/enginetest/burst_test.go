package enginetest_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
)

// TestBurstUsesAllWorkSlots: 200 pods start at once. The engine makes as many concurrent calls that
// create or start something as the runtime may work on, and no more.
func TestBurstUsesAllWorkSlots(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{8, 32} {
		t.Run(fmt.Sprint("MaxRuntimeWork ", limit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := fake.New(fake.Options{})
				work := []fake.Method{fake.RunPodSandbox, fake.CreateContainer, fake.StartContainer}
				for _, m := range append([]fake.Method{fake.ImageStatus, fake.PullImage}, work...) {
					rt.Inject(fake.Fault{Match: fake.Match{Method: m}, Effect: fake.Effect{Delay: 20 * time.Millisecond}})
				}
				r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.Pods.MaxRuntimeWork = limit }).start()
				pods := make([]*v1.Pod, 200)
				for i := range pods {
					pods[i] = newPod(fmt.Sprint("p", i))
				}
				r.set(pods...)
				r.within(time.Minute, "200 running containers", func() error {
					for _, p := range pods {
						if rt.Facts(p.UID, "main").Running != 1 {
							return fmt.Errorf("%s does not run", p.Name)
						}
					}
					return nil
				})
				var calls []fake.Call
				for _, m := range work {
					calls = append(calls, rt.Calls(fake.Match{Method: m})...)
				}
				most := atOneTime(calls)
				t.Logf("%d calls, at most %d at a time", len(calls), most)
				if most != limit {
					t.Errorf("%d calls at a time, want %d", most, limit)
				}
				if err := rt.Doubled(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// atOneTime returns the maximum number of calls in flight at the same time.
func atOneTime(calls []fake.Call) (most int) {
	type edge struct {
		at   time.Time
		step int
	}
	var edges []edge
	for _, c := range calls {
		edges = append(edges, edge{c.Start, 1}, edge{c.End, -1})
	}
	// A call that ends when another begins makes room for it.
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.step, b.step)) })
	now := 0
	for _, e := range edges {
		now += e.step
		most = max(most, now)
	}
	return most
}
