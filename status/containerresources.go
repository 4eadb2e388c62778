package status

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/runtime"
)

// What cgroups cannot tell apart, so that the allocated number stays (6.6).
const (
	leastMilliRequest = 2
	leastMilliLimit   = 10
)

// resources reports what a container runs with (6.6): the allocated values if it does
// not run, else what the runtime reports, or what the container was last given where
// it reports nothing. What nobody knows stays as it was reported of the same run.
// Values and lists that the spec does not have are not added.
func (g *generator) resources(c *v1.Container, old *v1.ContainerStatus, record *runtime.ContainerStatus, running, sameID bool) *v1.ResourceRequirements {
	if len(c.Resources.Requests) == 0 && len(c.Resources.Limits) == 0 && len(c.Resources.Claims) == 0 {
		return nil
	}
	if !running {
		return &c.Resources
	}
	o := overlay{allocated: &c.Resources, out: &c.Resources}
	if sameID && old.State.Running != nil {
		o.old = old.Resources
	}
	have, given := record.Resources, g.in.Actuated[c.Name]
	first := func(reported, given int64) int64 {
		if reported != 0 {
			return reported
		}
		return given
	}
	o.set(v1.ResourceCPU, false, first(have.MilliCPURequest, given.MilliCPURequest), leastMilliRequest)
	o.set(v1.ResourceCPU, true, first(have.MilliCPULimit, given.MilliCPULimit), leastMilliLimit)
	o.set(v1.ResourceMemory, false, first(have.MemoryRequest, given.MemoryRequest), 0)
	o.set(v1.ResourceMemory, true, first(have.MemoryLimit, given.MemoryLimit), 0)
	if o.old != nil && sameResources(o.old, o.out) {
		return o.old
	}
	return o.out
}

// overlay replaces single amounts of allocated resources.
type overlay struct {
	allocated *v1.ResourceRequirements
	old       *v1.ResourceRequirements // of the same run, nil if there are none
	// out is allocated until something differs, then a copy.
	out *v1.ResourceRequirements
}

// set reports one amount: amount, in thousandths of a CPU or bytes, if it is known.
// Amounts that are at most least on both sides are the same.
func (o *overlay) set(name v1.ResourceName, limit bool, amount, least int64) {
	allocated, ok := pick(o.allocated, limit)[name]
	if !ok {
		return
	}
	wanted := allocated.Value()
	if name == v1.ResourceCPU {
		wanted = allocated.MilliValue()
	}
	switch {
	case amount == 0:
		if o.old == nil {
			return
		}
		was, ok := pick(o.old, limit)[name]
		if !ok || was.Cmp(allocated) == 0 {
			return
		}
		o.replace(name, limit, was)
	case amount == wanted, amount <= least && wanted <= least:
	case name == v1.ResourceCPU:
		o.replace(name, limit, *resource.NewMilliQuantity(amount, allocated.Format))
	default:
		o.replace(name, limit, *resource.NewQuantity(amount, allocated.Format))
	}
}

func (o *overlay) replace(name v1.ResourceName, limit bool, q resource.Quantity) {
	if o.out == o.allocated {
		o.out = o.allocated.DeepCopy()
	}
	pick(o.out, limit)[name] = q
}

func pick(r *v1.ResourceRequirements, limit bool) v1.ResourceList {
	if limit {
		return r.Limits
	}
	return r.Requests
}

func sameResources(a, b *v1.ResourceRequirements) bool {
	return a == b || len(a.Claims) == len(b.Claims) && sameAmounts(a.Requests, b.Requests) && sameAmounts(a.Limits, b.Limits)
}

// sameAmounts compares two lists. Nearly all have CPU and memory only, and asking
// for a name is much cheaper than going through a map.
func sameAmounts(a, b v1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	found := 0
	for _, name := range [...]v1.ResourceName{v1.ResourceMemory, v1.ResourceCPU} {
		if q, ok := a[name]; ok {
			found++
			if other, ok := b[name]; !ok || q.Cmp(other) != 0 {
				return false
			}
		}
	}
	if found == len(a) {
		return true
	}
	for name, q := range a {
		if other, ok := b[name]; !ok || q.Cmp(other) != 0 {
			return false
		}
	}
	return true
}
