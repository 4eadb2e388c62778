package pods_test

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime/pods"
)

// crowd is a node whose pods all have 1 CPU, and which has no more.
type crowd struct {
	t      testing.TB
	a      *pods.Allocations
	active []*v1.Pod
	woken  []types.UID
}

func newCrowd(t testing.TB, n int) *crowd {
	t.Helper()
	c := &crowd{t: t}
	var err error
	c.a, err = pods.NewAllocations(pods.AllocationOptions{
		Store:  memoryStore{},
		Active: func() []*v1.Pod { return c.active },
		Wake:   func(uid types.UID) { c.woken = append(c.woken, uid) },
		Allocatable: func() v1.ResourceList {
			return v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(n), resource.DecimalSI), v1.ResourceMemory: resource.MustParse("64Gi")}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		c.active = append(c.active, c.pod(i, "1"))
		c.allocate(c.active[i])
	}
	return c
}

func (c *crowd) pod(i int, cpu string) *v1.Pod {
	p := apps(cpu + " 1000")
	p.UID, p.Name = types.UID(fmt.Sprint("u", i)), fmt.Sprint("p", i)
	return p
}

// ask makes pod i ask for CPUs; its spec is the one that is active from now on.
func (c *crowd) ask(i int, cpu string, change ...func(*v1.Pod)) {
	p := c.pod(i, cpu)
	for _, f := range change {
		f(p)
	}
	c.active[i] = p
	c.allocate(p)
}

func (c *crowd) allocate(p *v1.Pod) {
	if _, _, err := c.a.Allocate(p); err != nil {
		c.t.Fatal(err)
	}
}

// gone ends the last pods, so that n are left.
func (c *crowd) gone(n int) {
	for _, p := range c.active[n:] {
		if err := c.a.Forget(p.UID); err != nil {
			c.t.Fatal(err)
		}
	}
	c.active = c.active[:n]
}

// cpu is what pod i was allocated.
func (c *crowd) cpu(i int) string {
	return c.a.Allocated(c.active[i]).Spec.Containers[0].Resources.Requests.Cpu().String()
}

// A resize that is deferred, and a retry, cost no more than one look at each pod: a crowd of them must not keep the
// lock for minutes.
func TestCostOfDeferredResizesGrowsWithTheirNumber(t *testing.T) {
	cost := func(n int) (own, retry float64) {
		c := newCrowd(t, n)
		for i := range n {
			c.ask(i, "2")
		}
		more := []string{"2", "3"}
		k := 0
		own = testing.AllocsPerRun(10, func() {
			k++
			c.ask(0, more[k%2])
		})
		return own, testing.AllocsPerRun(10, func() { c.a.Retry(false) })
	}
	own, retry := cost(50)
	moreOwn, moreRetry := cost(200)
	if moreOwn > 8*own || moreRetry > 8*retry {
		t.Errorf("four times the pods: a request costs %.0f allocations instead of %.0f, a retry %.0f instead of %.0f", moreOwn, own, moreRetry, retry)
	}
}

// spec/runtime.md 21.4: room goes to the first in the queue, even if another pod's request finds it.
func TestRoomGoesToTheFirstInTheQueue(t *testing.T) {
	c := newCrowd(t, 4)
	c.ask(1, "2", func(p *v1.Pod) { p.Spec.Priority = ptr.To[int32](7) })
	c.gone(3)
	c.woken = nil
	c.ask(2, "2")
	if c.cpu(2) != "1" || !slices.Contains(c.woken, "u1") {
		t.Errorf("pod 2 got %s CPUs; woken %v", c.cpu(2), c.woken)
	}
	c.allocate(c.active[1])
	if c.cpu(1) != "2" {
		t.Errorf("pod 1 got %s CPUs", c.cpu(1))
	}
}

// spec/runtime.md 21.4: each grant counts for the next one in the queue, and what a pod gives back too.
func TestGrantsOfOneRetryFitTogether(t *testing.T) {
	c := newCrowd(t, 5)
	for i := range 3 {
		c.ask(i, "2")
	}
	c.gone(3) // the node has 2 CPUs to spare
	c.a.Retry(false)
	for i := range 3 {
		c.allocate(c.active[i])
	}
	if got := fmt.Sprint([]string{c.cpu(0), c.cpu(1), c.cpu(2)}); got != "[2 2 1]" {
		t.Errorf("got %s", got)
	}
	c.ask(0, "1")
	c.a.Retry(false)
	c.allocate(c.active[2])
	if c.cpu(2) != "2" || !c.a.NextRetry().IsZero() {
		t.Errorf("pod 2 got %s CPUs, next retry at %v", c.cpu(2), c.a.NextRetry())
	}
}

// spec/runtime.md 21.4: one that can never be admitted does not end the retries of others.
func TestInfeasibleResizeLeavesTheRetriesOfOthers(t *testing.T) {
	c := newCrowd(t, 2)
	c.ask(0, "2")
	due := c.a.NextRetry()
	c.ask(1, "50")
	if due.IsZero() || !c.a.NextRetry().Equal(due) {
		t.Errorf("due at %v, then at %v", due, c.a.NextRetry())
	}
}

func BenchmarkDeferredResize(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := newCrowd(b, n)
			for i := range n {
				c.ask(i, "2")
			}
			more := []*v1.Pod{c.pod(0, "2"), c.pod(0, "3")}
			for i := 0; b.Loop(); i++ {
				c.allocate(more[i%2])
				c.a.Retry(false)
			}
		})
	}
}
