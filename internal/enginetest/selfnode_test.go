package enginetest_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/mirror"
)

// TestHostIPsFollowTheNode: SN1. If a node gets other addresses, the statuses of its pods show them, and
// nothing restarts. If the addresses are unknown for a while, the statuses keep the old ones.
func TestHostIPsFollowTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var addresses atomic.Value
		addresses.Store([]string{"192.0.2.1"})
		rt := fake.New(fake.Options{})
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) {
			c.Node.Addresses = func() []string { return addresses.Load().([]string) }
		}).start()
		has := func(uid types.UID, want string, limit time.Duration) {
			t.Helper()
			r.within(limit, fmt.Sprintf("host IP %s of %s", want, uid), func() error {
				if pod := r.pod(uid); pod.Status.HostIP != want {
					return errors.New(pod.Status.HostIP)
				}
				return nil
			})
		}
		r.set(newPod("a"))
		r.phase("uid-a", v1.PodRunning, 5*time.Second)
		has("uid-a", "192.0.2.1", 0)
		addresses.Store([]string{"192.0.2.2"})
		<-time.After(time.Second)
		r.set(newPod("a"), newPod("b"))
		r.phase("uid-b", v1.PodRunning, 5*time.Second)
		has("uid-b", "192.0.2.2", 0)
		has("uid-a", "192.0.2.2", 95*time.Second)
		addresses.Store([]string(nil))
		<-time.After(5 * time.Minute)
		has("uid-a", "192.0.2.2", 0)
		if n := starts(rt, "uid-a"); n != 1 {
			t.Errorf("%d starts", n)
		}
	})
}

// TestAllocatableFollowsTheNode: SN2. The engine judges a pod or a resize by what the node has for
// pods at that time. If this becomes less than what pods have, no pod stops.
func TestAllocatableFollowsTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cpu atomic.Value
		cpu.Store("2")
		r := newRig(t, byContainer(nil), t.TempDir(), func(c *podwright.Config) {
			c.Admission.FitResources = true
			c.Node.AllocatableNow = func() v1.ResourceList {
				return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu.Load().(string)), v1.ResourceMemory: resource.MustParse("64Gi")}
			}
		}).start()
		a, b := sized(newPod("a"), "1", "64Mi"), sized(newPod("b"), "1", "64Mi")
		r.set(a, b)
		r.phase("uid-a", v1.PodRunning, 5*time.Second)
		r.phase("uid-b", v1.PodRunning, 5*time.Second)
		b = sized(newPod("b"), "1500m", "64Mi")
		r.set(a, b)
		r.pending("uid-b", v1.PodReasonDeferred)
		cpu.Store("3")
		r.shows("uid-b", "1500m", "64Mi")
		c := sized(newPod("c"), "1", "64Mi")
		r.set(a, b, c)
		r.rejected("uid-c", "OutOfcpu")
		cpu.Store("4")
		<-time.After(time.Second)
		d := sized(newPod("d"), "1", "64Mi")
		r.set(a, b, c, d)
		r.phase("uid-d", v1.PodRunning, 5*time.Second)
		cpu.Store("1")
		<-time.After(10 * time.Minute)
		for _, uid := range []types.UID{"uid-a", "uid-b", "uid-d"} {
			r.phase(uid, v1.PodRunning, 0)
		}
	})
}

// TestTaintsAndLabelsOfTheNode: SN3. The node's object says which pods of an API may start; running
// pods continue, even after a restart of the agent, and taints do not matter for static pods.
func TestTaintsAndLabelsOfTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var object atomic.Pointer[v1.Node]
		n1 := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"disk": "ssd"}}}
		object.Store(n1)
		api, h := &mirror.FakeClient{}, newHost(t, fake.New(fake.Options{}))
		described := func(c *podwright.Config) {
			c.Sources = append(c.Sources, apiSource{api: api})
			c.Node.Object = object.Load
		}
		r := h.agent(described)
		r.set()
		hdd := newPod("hdd")
		hdd.Spec.NodeSelector = map[string]string{"disk": "hdd"}
		api.Put(hdd)
		api.Put(newPod("first"))
		r.rejected("uid-hdd", "NodeAffinity")
		r.phase("uid-first", v1.PodRunning, 5*time.Second)

		tainted := n1.DeepCopy()
		tainted.Spec.Taints = []v1.Taint{{Key: "broken", Effect: v1.TaintEffectNoExecute}, {Key: "full", Effect: v1.TaintEffectNoSchedule}}
		object.Store(tainted)
		<-time.After(time.Second)
		tolerant := newPod("tolerant")
		tolerant.Spec.Tolerations = []v1.Toleration{{Key: "broken", Operator: v1.TolerationOpExists}}
		api.Put(newPod("second"))
		api.Put(tolerant)
		r.set(newPod("static"))
		r.rejected("uid-second", "TaintToleration")
		r.phase("uid-tolerant", v1.PodRunning, 5*time.Second)
		r.phase("uid-static", v1.PodRunning, 5*time.Second)
		h.kill(r)
		r = h.agent(described)
		r.set(newPod("static"))
		<-time.After(2 * time.Minute)
		for _, uid := range []types.UID{"uid-first", "uid-tolerant", "uid-static"} {
			r.phase(uid, v1.PodRunning, 0)
			if n := starts(h.rt, uid); n != 1 {
				t.Errorf("%s was started %d times", uid, n)
			}
		}
	})
}

// TestStandInWaitsAsLongAsItShould: SN5. The configuration can give a source longer than 10 s for its first answer.
func TestStandInWaitsAsLongAsItShould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := remembering(t)
		r := n.agent(func(c *podwright.Config) { c.Storage.StandInAfter = time.Minute })
		<-time.After(59 * time.Second)
		if n.rt.Running("uid-a", "main") != 0 {
			t.Error("a source was given less than a minute")
		}
		r.phase("uid-a", v1.PodRunning, 10*time.Second)
		r.phase("uid-b", v1.PodRunning, 10*time.Second)
	})
}
