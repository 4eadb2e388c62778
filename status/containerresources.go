package status

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime"
)

// Amounts up to these look the same in cgroups, so the allocated number stays (6.6).
const (
	leastMilliRequest = 2
	leastMilliLimit   = 10
)

// resources reports what a container runs with (6.6): the allocated values if it is not running;
// otherwise what the runtime reports or, where it reports nothing, what the container was last
// given. What is unknown stays as it was last reported for the same run. Values and lists that the
// spec does not have are not added; an empty result is shown as {}.
func (g *generator) resources(c *v1.Container, old *v1.ContainerStatus, record *runtime.ContainerStatus, running, sameID bool) *v1.ResourceRequirements {
	if !running || len(c.Resources.Requests)+len(c.Resources.Limits) == 0 {
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
	if o.old != nil && o.agrees() {
		return o.old
	}
	return o.out
}

// overlay replaces individual amounts of the allocated resources.
type overlay struct {
	allocated *v1.ResourceRequirements
	old       *v1.ResourceRequirements // of the same run, nil if there are none
	// out is allocated until something differs, then a copy.
	out *v1.ResourceRequirements
	// same counts the amounts in out that equal those in old.
	same int
}

// set reports one amount, in thousandths of a CPU or in bytes, if it is known. Two amounts that are
// both at most least count as the same.
func (o *overlay) set(name v1.ResourceName, limit bool, amount, least int64) {
	shown, ok := pick(o.allocated, limit)[name]
	if !ok {
		return
	}
	var was resource.Quantity
	had := false
	if o.old != nil {
		was, had = pick(o.old, limit)[name]
	}
	same := had && was.Cmp(shown) == 0
	if amount == 0 && had && !same {
		o.replace(name, limit, was)
		same = true
	}
	if amount != 0 && !means(amount, shown, name, least) {
		shown = quantity(amount, name, shown.Format)
		o.replace(name, limit, shown)
		same = had && was.Cmp(shown) == 0
	}
	if same {
		o.same++
	}
}

// agrees reports whether out equals old. Usually set has already compared everything; looking it
// all up in the maps again would double the cost.
func (o *overlay) agrees() bool {
	a, b := o.old, o.out
	if len(a.Requests) != len(b.Requests) || len(a.Limits) != len(b.Limits) || len(a.Claims) != len(b.Claims) {
		return false
	}
	return o.same == len(b.Requests)+len(b.Limits) || podinfo.SameAmounts(a.Requests, b.Requests) && podinfo.SameAmounts(a.Limits, b.Limits)
}

// means reports whether amount is what a container with the allocated quantity runs with.
func means(amount int64, allocated resource.Quantity, name v1.ResourceName, least int64) bool {
	wanted := allocated.Value()
	if name == v1.ResourceCPU {
		wanted = allocated.MilliValue()
	}
	return amount == wanted || amount <= least && wanted <= least
}

// quantity returns an amount in the unit of its resource.
func quantity(amount int64, name v1.ResourceName, format resource.Format) resource.Quantity {
	if name == v1.ResourceCPU {
		return *resource.NewMilliQuantity(amount, format)
	}
	return *resource.NewQuantity(amount, format)
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
