package pods_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// haltingStore fails from some write on, as if the agent had been killed.
type haltingStore struct {
	memoryStore
	left int
}

func (s *haltingStore) Save(uid types.UID, record []byte) error {
	if s.left--; s.left < 0 {
		return errors.New("the agent is dead")
	}
	return s.memoryStore.Save(uid, record)
}

// resizable is a pod of a sidecar and two containers; the first one restarts for its memory.
func resizable(r *rand.Rand, level bool) *v1.Pod {
	need := func(c *v1.Container) {
		needing(c, fmt.Sprintf("%dm", 100+10*r.IntN(50)), fmt.Sprint(1000+100*r.IntN(50)))
	}
	return newPod(func(p *v1.Pod) {
		a, b, s := container("a"), container("b"), sidecar("s")
		need(&a)
		need(&b)
		need(&s)
		a.ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
		p.Spec.Containers, p.Spec.InitContainers = []v1.Container{a, b}, []v1.Container{s}
		if level {
			l := container("level")
			needing(&l, fmt.Sprintf("%dm", 1600+10*r.IntN(50)), fmt.Sprint(20000+100*r.IntN(50)))
			p.Spec.Resources = ptr.To(l.Resources)
			delete(b.Resources.Limits, v1.ResourceMemory)
			delete(p.Spec.Containers[1].Resources.Limits, v1.ResourceMemory)
		}
	})
}

// spec/runtime.md 21: whatever fails in between, and whenever the agent dies, the pod ends up with what it asks for.
func TestResizesEndAsAskedFor(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(1, seed))
				w := newResizeWorld(t, true)
				level := r.IntN(2) == 0
				store := &haltingStore{memoryStore: w.store, left: 1 << 30}
				load := func() {
					store.left = 1 << 30
					a, err := pods.NewAllocations(pods.AllocationOptions{Store: store, Events: w.events})
					if err == nil {
						err = a.Load()
					}
					if err != nil {
						t.Fatal(err)
					}
					w.a, w.opts.Allocations = a, a
					w.restart()
				}
				load()
				pod := resizable(r, level)
				step := func() {
					if p, _, err := w.a.Allocate(pod); err == nil {
						w.sync(p)
					}
				}
				heal := func() {
					load()
					w.fail = ""
					for range 12 {
						step()
						pass(10 * second)
					}
				}
				heal()
				exits, resized := 0, 0
				for range 2 + r.IntN(8) {
					switch r.IntN(6) {
					case 0, 1:
						old := pod
						pod = resizable(r, level)
						if r.IntN(2) == 0 { // only the first container changes
							next := old.DeepCopy()
							next.Spec.Containers[0] = pod.Spec.Containers[0]
							pod = next
						}
						if old.Spec.Containers[0].Resources.Limits.Memory().Cmp(*pod.Spec.Containers[0].Resources.Limits.Memory()) != 0 {
							resized++
						}
					case 2:
						w.fail = []string{"a", "b", "s", "set pod", "set pod shares", "set pod memory", "sandbox", ""}[r.IntN(8)]
					case 3:
						load()
						store.left = r.IntN(4)
					case 4:
						name := []string{"a", "b", "s"}[r.IntN(3)]
						if w.fake.Exit(pod.UID, name, fake.Exit{Code: 1}) == nil && name == "a" {
							exits++
						}
					}
					step()
					pass(10 * second)
				}
				pass(600 * second)
				heal()
				status := w.read(pod)
				check := func(c *v1.Container) {
					record := status.Container(c.Name)
					if record == nil || record.State != runtime.Running {
						t.Fatalf("container %s does not run", c.Name)
					}
					if got, want := record.Resources.MilliCPULimit, c.Resources.Limits.Cpu().MilliValue(); got != want {
						t.Errorf("container %s has %d mCPU, want %d", c.Name, got, want)
					}
					want := c.Resources.Limits.Memory().Value()
					if want == 0 {
						want = pod.Spec.Resources.Limits.Memory().Value()
					}
					if got := record.Resources.MemoryLimit; got != want {
						t.Errorf("container %s has %d of memory, want %d", c.Name, got, want)
					}
				}
				check(&pod.Spec.InitContainers[0])
				check(&pod.Spec.Containers[0])
				check(&pod.Spec.Containers[1])
				if n := int(status.Container("a").RestartCount); n > exits+resized {
					t.Errorf("container a restarted %d times, for %d ends and %d resizes", n, exits, resized)
				}
				memory, cpu := int64(0), int64(0)
				for _, c := range []v1.Container{pod.Spec.Containers[0], pod.Spec.Containers[1], pod.Spec.InitContainers[0]} {
					memory += c.Resources.Limits.Memory().Value()
					cpu += c.Resources.Limits.Cpu().MilliValue()
				}
				if level {
					memory, cpu = pod.Spec.Resources.Limits.Memory().Value(), pod.Spec.Resources.Limits.Cpu().MilliValue()
				}
				if got := w.cgroups.set[pod.UID]; got.MemoryLimit != memory || got.CPUQuota != cpu*100 {
					t.Errorf("the pod's cgroup has %s, want memory %d and quota %d", settingsText(got), memory, cpu*100)
				}
				if got := w.conditions(pod.UID); got != "" {
					t.Errorf("conditions %q", got)
				}
			})
		})
	}
}
