package admission

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/internal/podinfo"
)

// Reasons of the resource handlers: "OutOf" and the name of the resource.
const (
	outOf = "OutOf"

	reasonCPU              = outOf + "cpu"
	reasonMemory           = outOf + "memory"
	reasonEphemeralStorage = outOf + "ephemeral-storage"
	reasonPods             = outOf + "pods"
)

// Resources refuses a pod whose requests do not fit into what the active pods leave
// of allocatable: the CPU, memory, ephemeral storage and extended resources that
// pods may have together. It calls allocatable for every pod, so the result may change.
// allocatable must not block, and its result is not modified. A resource that the result
// lacks is not limited, but the node has none of it if it is one of [Scarce]. Active pods
// always keep their place.
func Resources(allocatable func() v1.ResourceList) Handler {
	return fitting(allocatable, func(v1.ResourceName) bool { return true })
}

// Scarce is [Resources] for only those resources that a node has only if it declares them:
// extended resources (such as nvidia.com/gpu), huge pages, and names unknown to this package
// (FD2).
func Scarce(allocatable func() v1.ResourceList) Handler { return fitting(allocatable, podinfo.Scarce) }

func fitting(allocatable func() v1.ResourceList, counts func(v1.ResourceName) bool) Handler {
	return HandlerFunc(func(r Request) Verdict {
		wanted := podinfo.Requests(r.Pod)
		maps.DeleteFunc(wanted, func(name v1.ResourceName, _ resource.Quantity) bool { return !counts(name) })
		if len(wanted) == 0 {
			return Verdict{}
		}
		used := v1.ResourceList{}
		for p := range r.others() {
			add(used, podinfo.Requests(p))
		}
		total := allocatable()
		for _, name := range slices.Sorted(maps.Keys(wanted)) {
			if v := fits(name, wanted[name], used[name], total); !v.Admitted() {
				return v
			}
		}
		return Verdict{}
	})
}

// fits judges one resource.
func fits(name v1.ResourceName, want, used resource.Quantity, total v1.ResourceList) Verdict {
	has, limited := total[name]
	if want.IsZero() || !limited && !podinfo.Scarce(name) {
		return Verdict{}
	}
	sum := used.DeepCopy()
	sum.Add(want)
	if sum.Cmp(has) <= 0 {
		return Verdict{}
	}
	return Refuse(outOf+string(name), "Node didn't have enough resource: %s, requested: %s, used: %s, capacity: %s",
		name, want.String(), used.String(), has.String())
}

// add adds b to a.
func add(a, b v1.ResourceList) {
	for name, q := range b {
		sum := a[name].DeepCopy()
		sum.Add(q)
		a[name] = sum
	}
}

// PodCount refuses a pod when limit pods are active already. A limit of 0 or less
// means no limit.
func PodCount(limit int) Handler {
	return HandlerFunc(func(r Request) Verdict {
		if limit <= 0 {
			return Verdict{}
		}
		n := 0
		for range r.others() {
			n++
		}
		if n < limit {
			return Verdict{}
		}
		return Refuse(reasonPods, "Node didn't have enough resource: pods, requested: 1, used: %d, capacity: %d", n, limit)
	})
}
