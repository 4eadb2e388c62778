package enginetest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
)

// sized gives every container of the pod a CPU request and a memory limit.
func sized(p *v1.Pod, cpu, memory string) *v1.Pod {
	p = p.DeepCopy()
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].Resources = v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)},
			Limits:   v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)},
		}
	}
	return p
}

// allocatable limits what pods may request together.
func allocatable(cpu string) func(*podwright.Config) {
	return func(c *podwright.Config) {
		c.Node.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("64Gi")}
	}
}

// shows waits until the first container's status has these resources.
func (r *rig) shows(uid types.UID, cpu, memory string) v1.ContainerStatus {
	r.t.Helper()
	var got v1.ContainerStatus
	r.within(time.Minute, fmt.Sprintf("%s with %s and %s", uid, cpu, memory), func() error {
		p := r.pod(uid)
		if p == nil || len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].Resources == nil {
			return errors.New("no resources")
		}
		got = p.Status.ContainerStatuses[0]
		if got.Resources.Requests.Cpu().Cmp(resource.MustParse(cpu)) != 0 || got.Resources.Limits.Memory().Cmp(resource.MustParse(memory)) != 0 {
			return fmt.Errorf("%+v, conditions %+v", got.Resources, p.Status.Conditions)
		}
		return nil
	})
	return got
}

// pending waits for this reason in the conditions of a resize; "" waits until both conditions are
// gone.
func (r *rig) pending(uid types.UID, reason string) {
	r.t.Helper()
	r.within(10*time.Minute, "a resize that is "+reason, func() error {
		got := ""
		for _, c := range r.pod(uid).Status.Conditions {
			if c.Type == v1.PodResizePending || c.Type == v1.PodResizeInProgress {
				got += c.Reason
				if reason == "" {
					got += string(c.Type)
				}
			}
		}
		if got != reason {
			return errors.New(got)
		}
		return nil
	})
}

// TestResizeKeepsContainer: 21.3, 21.5, 21.9: the same container continues with other resources, or
// restarts once if its policy says so. Status and events show this (status.md 5.6, 6.6, 6.7).
func TestResizeKeepsContainer(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %v", restart), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := byContainer(nil)
				r := newRig(t, rt, t.TempDir(), allocatable("4")).start()
				p := newPod("web")
				if restart {
					p.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
				}
				r.set(sized(p, "100m", "64Mi"))
				r.phase(p.UID, v1.PodRunning, 10*time.Second)
				before := r.shows(p.UID, "100m", "64Mi")
				r.set(sized(p, "250m", "128Mi"))
				after := r.shows(p.UID, "250m", "128Mi")
				if got := r.pod(p.UID).Status.AllocatedResources.Cpu().String(); got != "250m" {
					t.Errorf("6.7: allocated %s, want 250m", got)
				}
				wantCount := int32(0)
				if restart {
					wantCount = 1
				}
				if (after.ContainerID == before.ContainerID) == restart || after.RestartCount != wantCount {
					t.Errorf("container %s became %s, restarted %d times", before.ContainerID, after.ContainerID, after.RestartCount)
				}
				r.pending(p.UID, "")
				for _, e := range []string{"web ResizeStarted", "web ResizeCompleted"} {
					if n := r.events.count(e); n != 1 {
						t.Errorf("%d events %s, want 1", n, e)
					}
				}
				if n := rt.CallCount(fake.UpdateContainerResources); (n == 0) != restart {
					t.Errorf("%d updates in place", n)
				}
			})
		})
	}
}

// TestResizeWaitsForRoom: 21.4: a resize waits until there is room, and one that never fits is
// refused for good. In both cases the container keeps what it has. A refusal is repeated when the
// spec changes (status edge case 29).
func TestResizeWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(nil)
		root := t.TempDir()
		r := newRig(t, rt, root, allocatable("1")).start()
		a, b := newPod("a"), newPod("b")
		r.set(sized(a, "400m", "64Mi"), sized(b, "400m", "64Mi"))
		r.phase(a.UID, v1.PodRunning, 10*time.Second)
		r.phase(b.UID, v1.PodRunning, 10*time.Second)

		r.set(sized(a, "700m", "64Mi"), sized(b, "400m", "64Mi"))
		r.pending(a.UID, "Deferred")
		r.shows(a.UID, "400m", "64Mi")
		if n := r.events.count("a ResizeDeferred"); n != 1 {
			t.Errorf("%d events ResizeDeferred", n)
		}

		// The next agent still knows the allocation and the refusal, and the container stays as it
		// is.
		r.stop()
		r = newRig(t, rt, root, allocatable("1"))
		r.start()
		r.set(sized(a, "700m", "64Mi"), sized(b, "400m", "64Mi"))
		r.within(10*time.Second, "the pods", func() error {
			if len(r.engine.Pods()) != 2 || r.pod(a.UID).Status.Phase != v1.PodRunning {
				return errors.New("not yet")
			}
			return nil
		})
		r.pending(a.UID, "Deferred")
		r.shows(a.UID, "400m", "64Mi")
		if n := rt.CallCount(fake.UpdateContainerResources); n != 0 {
			t.Errorf("%d updates before there is room", n)
		}

		r.set(sized(a, "700m", "64Mi")) // b is removed
		r.shows(a.UID, "700m", "64Mi")
		r.pending(a.UID, "")

		r.set(sized(a, "1100m", "64Mi"))
		r.pending(a.UID, "Infeasible")
		r.set(sized(a, "800m", "64Mi")) // another spec
		r.shows(a.UID, "800m", "64Mi")
		if n := rt.CallCount(fake.StartContainer); n != 2 {
			t.Errorf("%d starts, want 2", n)
		}
		r.set()
		r.empty(time.Minute)
		r.within(time.Minute, "no records", func() error {
			left, err := filepath.Glob(filepath.Join(root, "state", "resources", "*"))
			if err != nil || len(left) > 0 {
				return fmt.Errorf("%v %w", left, err)
			}
			return nil
		})
	})
}

// TestDeferredResizeIsTriedInTimeAfterARestart: 21.4. Room that no event tells of, as that of a node that grows, is found by the next
// agent too, which repeats the refusal of the earlier one without news.
func TestDeferredResizeIsTriedInTimeAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root := byContainer(nil), t.TempDir()
		var cpu atomic.Value
		cpu.Store("1")
		growing := func(c *podwright.Config) {
			c.Node.AllocatableNow = func() v1.ResourceList {
				return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu.Load().(string)), v1.ResourceMemory: resource.MustParse("64Gi")}
			}
		}
		r := newRig(t, rt, root, growing).start()
		a, b := newPod("a"), sized(newPod("b"), "400m", "64Mi")
		r.set(sized(a, "400m", "64Mi"), b)
		r.phase(a.UID, v1.PodRunning, 10*time.Second)
		r.phase(b.UID, v1.PodRunning, 10*time.Second)
		r.set(sized(a, "700m", "64Mi"), b)
		r.pending(a.UID, "Deferred")
		r.stop()

		r = newRig(t, rt, root, growing).start()
		r.set(sized(a, "700m", "64Mi"), b)
		<-time.After(10 * time.Minute)
		r.pending(a.UID, "Deferred")
		cpu.Store("2")
		<-time.After(3*time.Minute + 10*time.Second)
		r.pending(a.UID, "")
		r.shows(a.UID, "700m", "64Mi")
	})
}

// TestRefusedResizeIsAboutTheNewestSpec: status.md 5.6, edge case 29. A second refusal in the same words is shown as one of the
// newer spec, and what was refused by an earlier agent is gone once it is taken back.
func TestRefusedResizeIsAboutTheNewestSpec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root := byContainer(nil), t.TempDir()
		r := newRig(t, rt, root, allocatable("1")).start()
		pod := newPod("a")
		ask := func(generation int64, cpu, memory string) {
			p := sized(pod, cpu, memory)
			p.Generation = generation
			r.set(p)
		}
		ask(1, "400m", "64Mi")
		r.phase(pod.UID, v1.PodRunning, 10*time.Second)
		for generation, memory := range []string{"64Mi", "128Mi", "64Mi"} {
			generation := int64(generation + 2)
			ask(generation, "1100m", memory)
			<-time.After(5 * time.Second)
			r.pending(pod.UID, "Infeasible")
			for _, c := range r.pod(pod.UID).Status.Conditions {
				if c.Type == v1.PodResizePending && c.ObservedGeneration != generation {
					t.Errorf("generation %d is refused as %d", generation, c.ObservedGeneration)
				}
			}
		}
		r.stop()
		r = newRig(t, rt, root, allocatable("1")).start()
		ask(9, "400m", "64Mi")
		r.phase(pod.UID, v1.PodRunning, 10*time.Second)
		r.pending(pod.UID, "")
	})
}

// TestDamagedResizeRecordEndsRun: 21.1: an agent that cannot read what it allocated does not start,
// and names the pod.
func TestDamagedResizeRecordEndsRun(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "state", "resources")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "uid-x.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, byContainer(nil), root)
	if err := r.engine.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "uid-x") {
		t.Errorf("Run: %v", err)
	}
}

// TestMemoryRequestUnderSwapIsInfeasible: spec/runtime.md 21.4. Where containers may swap, a memory
// request cannot change without a restart.
func TestMemoryRequestUnderSwapIsInfeasible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, fake.New(fake.Options{}), t.TempDir(), allocatable("4"), func(c *podwright.Config) { c.Pods.LimitedSwap = true }).start()
		pod := newPod("a")
		r.set(sized(pod, "400m", "64Mi"))
		r.phase(pod.UID, v1.PodRunning, 10*time.Second)
		r.set(sized(pod, "400m", "128Mi"))
		r.pending(pod.UID, "Infeasible")
		r.set(sized(pod, "500m", "64Mi"))
		r.shows(pod.UID, "500m", "64Mi")
	})
}
