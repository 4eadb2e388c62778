package enginetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
)

// TestHeldAtTheStart: syncloop.md B2, cleanup.md steps 7 and 12, status.md 9.12: the next agent has
// not yet handed a pod to its worker, because the runtime was read only after the source had named
// the pod. The agent does not treat that pod as one that lost its worker: nothing is restarted, and
// the remembered status stays.
func TestHeldAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, fake.New(fake.Options{}))
		first := n.agent()
		first.set(newPod("web"))
		first.phase("uid-web", v1.PodRunning, time.Minute)
		<-time.After(2 * time.Second)
		n.kill(first)
		n.rt = fake.New(fake.Options{}) // it comes back empty, so no event of the pod triggers another attempt
		n.rt.Inject(fake.Fault{
			Match: fake.Match{Method: fake.ListPodSandbox}, Times: 1, Effect: fake.Effect{Delay: 150 * time.Millisecond},
		})
		counts := &counters{}
		r := n.agent(func(c *podwright.Config) {
			c.Loop.HousekeepingPeriod, c.Observe.MeterProvider = 10*time.Millisecond, counts // many passes before the loop tries held work again
		})
		r.set(newPod("web"))
		for range 1000 {
			synctest.Wait()
			if e, _ := r.engine.Explain("uid-web"); e.Phase != v1.PodRunning {
				t.Fatalf("shown as %+v, worker %+v", e, e.Worker)
			}
			<-time.After(time.Millisecond)
		}
		if n := counts.get("kubelet_restarted_pods_total", "static=true"); n != 0 {
			t.Errorf("%d restarts counted", n)
		}
		if starts(n.rt, "uid-web") != 1 {
			t.Error("started again")
		}
		r.stop()
	})
}
