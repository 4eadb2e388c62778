package enginetest_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// cgroupTree holds pods' cgroups in memory.
type cgroupTree struct {
	mu       sync.Mutex
	setup    error
	setups   int
	weight   int64
	pods     map[types.UID]pods.CgroupResources
	creating int
}

func (c *cgroupTree) locked(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *cgroupTree) Setup() error { c.locked(func() { c.setups++ }); return c.setup }

func (c *cgroupTree) SetBurstableShares(n int64) error {
	c.locked(func() { c.weight = n })
	return nil
}

func (c *cgroupTree) Parent(p pods.PodCgroup) (string, error) { return "/tree/" + string(p.UID), nil }

func (c *cgroupTree) Exists(p pods.PodCgroup) (ok bool, _ error) {
	c.locked(func() { _, ok = c.pods[p.UID] })
	return ok, nil
}

func (c *cgroupTree) Create(p pods.PodCgroup, r pods.CgroupResources) error {
	c.locked(func() { c.pods[p.UID] = r; c.creating++ })
	return nil
}

func (c *cgroupTree) Resources(p pods.PodCgroup) (r pods.CgroupResources, _ error) {
	c.locked(func() { r = c.pods[p.UID] })
	return r, nil
}

func (c *cgroupTree) SetResources(pods.PodCgroup, pods.CgroupResources) error { return nil }
func (c *cgroupTree) MemoryUsage(pods.PodCgroup) (int64, error)               { return 0, nil }

func (c *cgroupTree) Destroy(_ context.Context, uid types.UID) error {
	c.locked(func() { delete(c.pods, uid) })
	return nil
}

// TestPodCgroupOutlivesContainers: the engine makes the levels at its start, and a pod's cgroup before its sandbox
// (3.3). The weight of all burstable pods together is what they request, and the remains of a gone pod are removed
// (podworkers.md 13). If a pod's cgroup disappears, the engine makes it again, with new containers (7.2).
func TestPodCgroupOutlivesContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := &cgroupTree{pods: map[types.UID]pods.CgroupResources{}}
		rt := byContainer(nil)
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.Pods.Cgroups = tree }).start()
		web := sized(newPod("web"), "500m", "64Mi")
		r.set(web)
		r.phase(web.UID, v1.PodRunning, 10*time.Second)
		request := rt.Calls(fake.Match{Method: fake.RunPodSandbox})[0].Request.(*runtimeapi.RunPodSandboxRequest)
		if got := request.GetConfig().GetLinux().GetCgroupParent(); got != "/tree/uid-web" {
			t.Errorf("3.3: parent %q", got)
		}
		tree.locked(func() {
			if tree.setups != 1 || tree.pods[web.UID].CPUShares != 512 || tree.creating != 1 {
				t.Errorf("%+v", tree.pods)
			}
			delete(tree.pods, web.UID)
		})
		r.within(5*time.Minute, "new containers in a new cgroup", func() error {
			c := r.pod(web.UID).Status.ContainerStatuses[0]
			if ok, _ := tree.Exists(pods.PodCgroup{UID: web.UID}); !ok || c.RestartCount != 1 || c.State.Running == nil {
				return errors.New("not yet")
			}
			return nil
		})
		if n := rt.CallCount(fake.StopContainer); n != 1 {
			t.Errorf("7.2: %d stops, want 1", n)
		}
		r.set()
		r.empty(time.Minute)
		r.within(time.Minute, "no cgroup", func() error {
			var left int
			tree.locked(func() { left = len(tree.pods) })
			if left > 0 {
				return errors.New("still there")
			}
			return nil
		})
	})
}

// An engine that cannot make the levels does not run: every pod would fail.
func TestImpossibleCgroupsEndRun(t *testing.T) {
	r := newRig(t, byContainer(nil), t.TempDir(), func(c *podwright.Config) {
		c.Pods.Cgroups = &cgroupTree{setup: errors.New("read-only file system")}
	})
	if err := r.engine.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "read-only file system") {
		t.Errorf("Run: %v", err)
	}
}

// The weight of all burstable pods together is what they request, even after one ends or is resized.
func TestBurstableWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := &cgroupTree{pods: map[types.UID]pods.CgroupResources{}}
		r := newRig(t, byContainer(nil), t.TempDir(), func(c *podwright.Config) { c.Pods.Cgroups = tree }).start()
		weighs := func(want int64) {
			t.Helper()
			r.within(time.Minute, "the weight of all pods", func() error {
				var got int64
				tree.locked(func() { got = tree.weight })
				if got != want {
					return errors.New("another one")
				}
				return nil
			})
		}
		a, b := sized(newPod("a"), "500m", "64Mi"), sized(newPod("b"), "1", "64Mi")
		r.set(a, b)
		weighs(1536)
		r.set(a)
		weighs(512)
	})
}
