package resize

import (
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime"
)

// resizable are the resources that can change while a pod runs (21.3).
var resizable = [...]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory}

// Allocation is the CPU and memory of a pod: of its app and init containers by name,
// and of the pod itself if it has any. It is shared and never changed.
type Allocation struct {
	Pod        *v1.ResourceRequirements           `json:"pod,omitempty"`
	Containers map[string]v1.ResourceRequirements `json:"containers,omitempty"`
}

// Of returns the resources a pod's spec asks for. Ephemeral containers have none to
// change (21.3).
func Of(pod *v1.Pod) Allocation {
	a := Allocation{Containers: map[string]v1.ResourceRequirements{}}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			a.Containers[list[i].Name] = only(&list[i].Resources)
		}
	}
	if pod.Spec.Resources != nil {
		own := only(pod.Spec.Resources)
		a.Pod = &own
	}
	return a
}

// only returns the resources that can change.
func only(r *v1.ResourceRequirements) v1.ResourceRequirements {
	pick := func(list v1.ResourceList) v1.ResourceList {
		var out v1.ResourceList
		for _, name := range resizable {
			if q, ok := list[name]; ok {
				if out == nil {
					out = v1.ResourceList{}
				}
				out[name] = q
			}
		}
		return out
	}
	return v1.ResourceRequirements{Requests: pick(r.Requests), Limits: pick(r.Limits)}
}

// None reports whether nothing is asked for at all.
func (a Allocation) None() bool {
	none := func(r v1.ResourceRequirements) bool { return len(r.Requests) == 0 && len(r.Limits) == 0 }
	for _, r := range a.Containers {
		if !none(r) {
			return false
		}
	}
	return a.Pod == nil || none(*a.Pod)
}

// Follow returns an allocation for the containers that other has: containers unknown
// to a take what other gives them, those unknown to other are left out. A container
// that is added or removed is not a resize.
func (a Allocation) Follow(other Allocation) Allocation {
	out := Allocation{Pod: a.Pod, Containers: make(map[string]v1.ResourceRequirements, len(other.Containers))}
	for name, r := range other.Containers {
		if own, ok := a.Containers[name]; ok {
			r = own
		}
		out.Containers[name] = r
	}
	return out
}

// Larger returns the larger one of each amount. Both must be of the same containers.
func (a Allocation) Larger(b Allocation) Allocation {
	out := Allocation{Pod: a.Pod, Containers: make(map[string]v1.ResourceRequirements, len(a.Containers))}
	for name, r := range a.Containers {
		out.Containers[name] = larger(r, b.Containers[name])
	}
	if a.Pod != nil && b.Pod != nil {
		level := larger(*a.Pod, *b.Pod)
		out.Pod = &level
	}
	return out
}

func larger(a, b v1.ResourceRequirements) v1.ResourceRequirements {
	each := func(a, b v1.ResourceList) v1.ResourceList {
		out := v1.ResourceList{}
		for _, name := range resizable {
			x, inA := a[name]
			y, inB := b[name]
			switch {
			case inB && (!inA || y.Cmp(x) > 0):
				out[name] = y
			case inA:
				out[name] = x
			}
		}
		return out
	}
	return v1.ResourceRequirements{Requests: each(a.Requests, b.Requests), Limits: each(a.Limits, b.Limits)}
}

// Equal reports whether two allocations are the same in every amount.
func (a Allocation) Equal(other Allocation) bool {
	if len(a.Containers) != len(other.Containers) || (a.Pod == nil) != (other.Pod == nil) {
		return false
	}
	if a.Pod != nil && !same(*a.Pod, *other.Pod) {
		return false
	}
	for name, r := range a.Containers {
		if o, ok := other.Containers[name]; !ok || !same(r, o) {
			return false
		}
	}
	return true
}

func same(a, b v1.ResourceRequirements) bool {
	for _, name := range resizable {
		for _, lists := range [2][2]v1.ResourceList{{a.Requests, b.Requests}, {a.Limits, b.Limits}} {
			x, inX := lists[0][name]
			y, inY := lists[1][name]
			if inX != inY || x.Cmp(y) != 0 {
				return false
			}
		}
	}
	return true
}

// Apply returns the pod with the allocated resources in its spec: the pod itself if
// they are what it asks for, otherwise a copy. Other resources stay as the pod has them.
func Apply(pod *v1.Pod, a Allocation) *v1.Pod {
	if Of(pod).Equal(a.Follow(Of(pod))) {
		return pod
	}
	out := pod.DeepCopy()
	for _, list := range [][]v1.Container{out.Spec.InitContainers, out.Spec.Containers} {
		for i := range list {
			if r, ok := a.Containers[list[i].Name]; ok {
				replace(&list[i].Resources, r)
			}
		}
	}
	if a.Pod != nil {
		if out.Spec.Resources == nil {
			out.Spec.Resources = &v1.ResourceRequirements{}
		}
		replace(out.Spec.Resources, *a.Pod)
	} else {
		out.Spec.Resources = nil
	}
	return out
}

// replace puts the resources that can change into r.
func replace(r *v1.ResourceRequirements, by v1.ResourceRequirements) {
	swap := func(list *v1.ResourceList, by v1.ResourceList) {
		for _, name := range resizable {
			q, ok := by[name]
			switch {
			case !ok:
				delete(*list, name)
			case *list == nil:
				*list = v1.ResourceList{name: q}
			default:
				(*list)[name] = q
			}
		}
	}
	swap(&r.Requests, by.Requests)
	swap(&r.Limits, by.Limits)
}

// Wanted returns what a container of the allocated pod should run with. One without
// a limit of its own takes the pod's (13.2, 21.10).
func Wanted(pod *v1.Pod, c *v1.Container) runtime.Resources {
	request := func(name v1.ResourceName, otherwise resource.Quantity) resource.Quantity {
		if q, ok := c.Resources.Requests[name]; ok {
			return q
		}
		return otherwise
	}
	cpu, memory := podinfo.ContainerLimit(pod, c, v1.ResourceCPU), podinfo.ContainerLimit(pod, c, v1.ResourceMemory)
	return runtime.Resources{
		MilliCPURequest: Milli(request(v1.ResourceCPU, cpu)), MilliCPULimit: Milli(cpu),
		MemoryRequest: Bytes(request(v1.ResourceMemory, memory)), MemoryLimit: Bytes(memory),
	}
}

// Overhead returns what a pod's sandbox takes besides the containers: as much as it requests it may use.
func Overhead(pod *v1.Pod) runtime.Resources {
	cpu, memory := Milli(pod.Spec.Overhead[v1.ResourceCPU]), Bytes(pod.Spec.Overhead[v1.ResourceMemory])
	return runtime.Resources{MilliCPURequest: cpu, MilliCPULimit: cpu, MemoryRequest: memory, MemoryLimit: memory}
}

// Without returns a pod's totals without its overhead. A limit of 0 is none.
func Without(totals, overhead runtime.Resources) runtime.Resources {
	return runtime.Resources{
		MilliCPURequest: max(0, totals.MilliCPURequest-overhead.MilliCPURequest),
		MilliCPULimit:   max(0, totals.MilliCPULimit-overhead.MilliCPULimit),
		MemoryRequest:   max(0, totals.MemoryRequest-overhead.MemoryRequest),
		MemoryLimit:     max(0, totals.MemoryLimit-overhead.MemoryLimit),
	}
}

// Milli returns a quantity in thousandths, at least 0 and at most what fits.
func Milli(q resource.Quantity) int64 {
	if q.CmpInt64(math.MaxInt64/1000) >= 0 {
		return math.MaxInt64
	}
	return max(q.MilliValue(), 0)
}

// Bytes returns a quantity in whole units, at least 0 and at most what fits.
func Bytes(q resource.Quantity) int64 {
	if q.CmpInt64(math.MaxInt64) >= 0 {
		return math.MaxInt64
	}
	return max(q.Value(), 0)
}
