package enginetest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/source"
)

// newTenant starts an engine with a tenant's source under a policy.
func newTenant(t *testing.T, rt *fake.Runtime, root string, policy admission.SourcePolicy, configure ...func(*podwright.Config)) tenancy {
	t.Helper()
	tenant := source.NewChannel(source.ChannelOptions{Name: "tenant", NodeName: "n1"})
	return tenancy{newRig(t, rt, root, append(configure, func(c *podwright.Config) {
		c.Sources = append(c.Sources, tenant)
		c.Admission.Sources = map[string]admission.SourcePolicy{"tenant": policy}
	})...).start(), tenant}
}

// TestRefusedForItsSourceComesBack: PS4, IN14. The engine tries a static pod for which its source
// had no room again when the source has room, and not before.
func TestRefusedForItsSourceComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTenant(t, fake.New(fake.Options{}), t.TempDir(), admission.SourcePolicy{MaxPods: 1})
		r.set()
		first, second := newPod("first"), newPod("second")
		r.asks(first)
		r.phase(first.UID, v1.PodRunning, time.Minute)
		r.asks(first, second)
		r.rejected(second.UID, "OutOfpods")
		<-time.After(20 * time.Minute)
		if n := r.events.count("second TriedAgain"); n != 0 {
			t.Errorf("tried again %d times without room", n)
		}
		r.asks(second)
		r.phase(second.UID, v1.PodRunning, time.Minute)
	})
}

// TestStricterPolicyLowersWhatRuns: PS7. A pod that was admitted as critical is no longer critical
// if the policy at the next start forbids that. While its source is silent and afterwards, it has
// the priority of the policy, continues to run, and no longer escapes eviction.
func TestStricterPolicyLowersWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root := fake.New(fake.Options{}), t.TempDir()
		r := newTenant(t, rt, root, admission.SourcePolicy{})
		r.set()
		vip := newPod("vip")
		vip.Spec.PriorityClassName = "system-node-critical"
		r.asks(vip)
		r.phase(vip.UID, v1.PodRunning, time.Minute)
		r.stop()

		node := &scarce{used: map[types.UID]uint64{}}
		r = newTenant(t, rt, root, admission.SourcePolicy{HighestPriority: ptr.To[int32](7)}, func(c *podwright.Config) {
			c.Eviction = &podwright.Eviction{Stats: node, Policy: eviction.Policy{
				Thresholds: []eviction.Threshold{{Signal: eviction.MemoryAvailable, Value: eviction.Value{Quantity: 100}}},
			}}
		})
		node.rig = r.rig
		r.set()
		lowered := func() error {
			p := r.pod(vip.UID)
			if p == nil || p.Spec.Priority == nil || *p.Spec.Priority != 7 || p.Spec.PriorityClassName != "" || p.Status.Phase != v1.PodRunning {
				return errors.New(r.explain(vip.UID))
			}
			return nil
		}
		r.within(time.Minute, "what stands in for the silent source", lowered)
		for range 3 {
			r.asks(vip)
			<-time.After(time.Minute)
		}
		if err := lowered(); err != nil {
			t.Error(err)
		}
		if f := rt.Facts(vip.UID, "main"); f.Started != 1 {
			t.Errorf("it was started %d times", f.Started)
		}
		if texts := r.events.said("vip PriorityLowered"); len(texts) != 1 {
			t.Errorf("events %q", texts)
		}
		node.use(vip.UID, 950)
		r.within(2*time.Minute, "its eviction", func() error {
			if s := r.pod(vip.UID).Status; s.Reason != "Evicted" {
				return errors.New(s.Reason)
			}
			return nil
		})
	})
}
