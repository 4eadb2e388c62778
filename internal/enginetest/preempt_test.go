package enginetest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/shutdown"
	"k8s.io/apimachinery/pkg/types"
)

// TestCriticalPodGetsRoom: section 16, preemption, and AD7: a critical pod that lacks only
// resources gets room: as few pods as possible stop with their own grace, Failed for the reason
// Preempting. Other pods are not touched, and an ordinary pod gets no room this way.
func TestCriticalPodGetsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(map[string]fake.Script{"slow": {IgnoreTERM: true}})
		r := newRig(t, rt, t.TempDir(), roomFor("3")).start()
		small, large := asking(newPod("small"), "1"), asking(newPod("large", "slow"), "2")
		large.Spec.TerminationGracePeriodSeconds = ptr.To[int64](20)
		r.set(small, large)
		r.phase(small.UID, v1.PodRunning, time.Minute)
		r.phase(large.UID, v1.PodRunning, time.Minute)

		ordinary := asking(newPod("ordinary"), "2")
		huge := withPriority(asking(newPod("huge"), "4"), 2_000_000_000)
		r.set(small, large, ordinary, huge)
		r.rejected(ordinary.UID, "OutOfcpu")
		r.rejected(huge.UID, "OutOfcpu")

		dns := withPriority(asking(newPod("dns"), "2"), 2_000_000_000)
		r.set(small, large, ordinary, huge, dns)
		took := r.phase(dns.UID, v1.PodRunning, 2*time.Minute)
		if took < 20*time.Second || took > 40*time.Second {
			t.Errorf("room after %v, want its own grace of 20 s", took)
		}
		p := r.pod(large.UID)
		if p.Status.Phase != v1.PodFailed || p.Status.Reason != "Preempting" || !disrupted(p) {
			t.Errorf("the victim: %+v", p.Status)
		}
		if n := r.events.count("large Preempting"); n != 1 {
			t.Errorf("%d events, want 1", n)
		}
		if q := r.pod(small.UID); q.Status.Phase != v1.PodRunning || r.events.count("small Preempting") != 0 {
			t.Errorf("the other pod: %+v", q.Status)
		}
	})
}

// TestPressureRefuses: section 16, eviction admission: under memory pressure a BestEffort pod is
// refused, but not one with a request.
func TestPressureRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &scarce{used: map[types.UID]uint64{}}
		r := newRig(t, fake.New(fake.Options{}), t.TempDir(), func(c *podwright.Config) {
			c.Eviction = &podwright.Eviction{Stats: node, Policy: eviction.Policy{
				Thresholds: []eviction.Threshold{{Signal: eviction.MemoryAvailable, Value: eviction.Value{Quantity: 100}, Grace: time.Hour}},
			}}
		})
		node.rig = r
		r.start()
		first := newPod("first")
		r.set(first)
		r.phase(first.UID, v1.PodRunning, time.Minute)
		node.use(first.UID, 950)
		r.within(time.Minute, "pressure", func() error {
			if r.engine.NodeConditions()[0].Status != v1.ConditionTrue {
				return errors.New("none")
			}
			return nil
		})
		greedy, modest := newPod("greedy"), withRequest(newPod("modest"), "10")
		r.set(first, greedy, modest)
		r.rejected(greedy.UID, "Evicted")
		r.phase(modest.UID, v1.PodRunning, time.Minute)
	})
}

// TestShutdownRefuses: section 16, node shutdown, and AD7: new pods are refused while the shutdown
// is under way, and a refused static pod runs after the next start.
func TestShutdownRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root := fake.New(fake.Options{}), t.TempDir()
		r := newRig(t, rt, root).start()
		web, late := newPod("web"), newPod("late")
		r.set(web)
		r.phase(web.UID, v1.PodRunning, time.Minute)
		if _, err := r.engine.Shutdown(t.Context(), shutdown.Plan{}); err != nil {
			t.Fatal(err)
		}
		r.set(web, late)
		r.rejected(late.UID, "NodeShutdown")
		r.stop()
		again := newRig(t, rt, root).start()
		again.set(web, late)
		again.phase(web.UID, v1.PodRunning, time.Minute)
		again.phase(late.UID, v1.PodRunning, time.Minute)
	})
}
