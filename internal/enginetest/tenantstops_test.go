package enginetest_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/admission"
)

// TestTenantRunsNoMoreThanItsNumber: PS4. With containers that ignore SIGTERM and a long grace, a tenant
// still cannot run more pods than its number: new pods wait until the pods that they replace have
// stopped, and then start at once. A restart does not change that, even one while the pods are withdrawn.
func TestTenantRunsNoMoreThanItsNumber(t *testing.T) {
	const grace = 60
	slow := func(name string) *v1.Pod {
		p := newPod(name)
		p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](grace)
		return p
	}
	policy := admission.SourcePolicy{MaxPods: 2}
	for name, between := range map[string]func(r tenancy, next []*v1.Pod) tenancy{
		"at once": func(r tenancy, next []*v1.Pod) tenancy { r.asks(next...); return r },
		"restarted while they stop": func(r tenancy, next []*v1.Pod) tenancy {
			r.asks()
			<-time.After(5 * time.Second)
			r.stop()
			r = newTenant(r.t, r.runtime, r.root, policy)
			r.asks(next...)
			r.set()
			return r
		},
		"withdrawn while no agent runs": func(r tenancy, next []*v1.Pod) tenancy {
			r.stop()
			r = newTenant(r.t, r.runtime, r.root, policy)
			r.asks(next...)
			r.set()
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := fake.New(fake.Options{Script: func(fake.Launch) fake.Script { return fake.Script{IgnoreTERM: true} }})
				r := newTenant(t, rt, t.TempDir(), policy)
				r.set()
				r.asks(slow("a"), slow("b"))
				r.phase("uid-a", v1.PodRunning, time.Minute)
				r.phase("uid-b", v1.PodRunning, time.Minute)
				r = between(r, []*v1.Pod{slow("c"), slow("d"), slow("e")})
				running := func() (n int) {
					for _, uid := range []string{"a", "b", "c", "d", "e"} {
						n += rt.Running(slow(uid).UID, "main")
					}
					return n
				}
				r.within(2*grace*time.Second, "the next two", func() error {
					if n := running(); n > 2 {
						t.Fatalf("%d pods run", n)
					}
					if rt.Running("uid-c", "main")+rt.Running("uid-d", "main") == 2 {
						return nil
					}
					if all := r.problems(); all != nil && strings.Contains(all.Error(), "being stopped") {
						t.Fatalf("a usual wait is a problem: %v", all)
					}
					return fmt.Errorf("%d run", running())
				})
				r.within(time.Minute, "the one too many", func() error {
					if p := r.pod("uid-e"); p == nil || p.Status.Reason != "OutOfpods" {
						return fmt.Errorf("%+v", p)
					}
					return nil
				})
			})
		})
	}
}

// TestTenantThatWaitsKeepsNoOtherOut: IN6. Pods of a tenant that wait for its other pods to stop
// take no room from the pods of other tenants meanwhile.
func TestTenantThatWaitsKeepsNoOtherOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{Script: func(l fake.Launch) fake.Script {
			return fake.Script{IgnoreTERM: strings.HasPrefix(string(l.PodUID), "uid-first")}
		}})
		r := newTenant(t, rt, t.TempDir(), admission.SourcePolicy{MaxPods: 5}, func(c *podwright.Config) { c.Admission.MaxPods = 12 })
		r.set()
		var first, next []*v1.Pod
		for i := range 5 {
			p := newPod(fmt.Sprintf("first-%d", i))
			p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600)
			first = append(first, p)
		}
		for i := range 50 {
			next = append(next, newPod(fmt.Sprintf("next-%d", i)))
		}
		r.asks(first...)
		for _, p := range first {
			r.phase(p.UID, v1.PodRunning, time.Minute)
		}
		r.asks(next...)
		<-time.After(time.Second)
		r.set(newPod("own"))
		r.phase("uid-own", v1.PodRunning, time.Second)
		r.within(15*time.Minute, "the tenant's next pods", func() error {
			n := 0
			for _, p := range next {
				n += rt.Running(p.UID, "main")
			}
			if n != 5 {
				return fmt.Errorf("%d run", n)
			}
			return nil
		})
	})
}

// TestTenantsPodsGetRoomInTheirOrder: PS4. A pod that waits for another one of its source to stop is not overtaken by a
// later one that would leave it no room. A smaller one that leaves it its room starts at once.
func TestTenantsPodsGetRoomInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{Script: func(fake.Launch) fake.Script { return fake.Script{IgnoreTERM: true} }})
		r := newTenant(t, rt, t.TempDir(), admission.SourcePolicy{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("5")}})
		r.set()
		slow := func(name, cpu string) *v1.Pod {
			p := asking(newPod(name), cpu)
			p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](60)
			return p
		}
		stays, waits, late, small := slow("stays", "1"), slow("waits", "3500m"), slow("late", "1"), slow("small", "500m")
		r.asks(slow("stops", "2"), stays)
		r.phase("uid-stops", v1.PodRunning, time.Minute)
		r.phase(stays.UID, v1.PodRunning, time.Minute)
		r.asks(stays, waits)
		<-time.After(10 * time.Second)
		r.asks(stays, waits, small)
		r.phase(small.UID, v1.PodRunning, 5*time.Second)
		r.asks(stays, waits, small, late)
		<-time.After(5 * time.Second)
		if n := rt.Running(waits.UID, "main") + rt.Running(late.UID, "main"); n > 0 {
			t.Errorf("%d of the waiting pods run", n)
		}
		r.phase(waits.UID, v1.PodRunning, 2*time.Minute)
		r.rejected(late.UID, "OutOfcpu")
		if n := rt.Running("uid-stops", "main"); n > 0 {
			t.Error("it has not waited for the pod that stops")
		}
	})
}
