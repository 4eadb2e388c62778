package admission

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Reasons of the resource handlers: "OutOf" and the name of the resource.
const (
	outOf = "OutOf"

	ReasonCPU              = outOf + "cpu"
	ReasonMemory           = outOf + "memory"
	ReasonEphemeralStorage = outOf + "ephemeral-storage"
	ReasonPods             = outOf + "pods"
)

// Resources refuses a pod whose requests do not fit into what the active pods leave
// of allocatable: the CPU, memory, ephemeral storage and extended resources that
// pods may have together. allocatable is asked for every pod, so it may change; it must
// not block, and what it returns is not modified. What is not in it is not limited,
// except extended resources (with a domain in their names): of those the node has
// none. Pods that are active already are never asked to go.
func Resources(allocatable func() v1.ResourceList) Handler {
	return HandlerFunc(func(r Request) Verdict {
		wanted := PodRequests(r.Pod)
		if len(wanted) == 0 {
			return Verdict{}
		}
		used := v1.ResourceList{}
		for p := range r.others() {
			add(used, PodRequests(p))
		}
		total := allocatable()
		for _, name := range sortedNames(wanted) {
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
	if want.IsZero() || !limited && !extended(name) {
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

// extended reports whether a node has a resource only if it says so.
func extended(name v1.ResourceName) bool {
	return slices.Contains([]byte(name), '/')
}

// PodRequests is what a pod takes from its node: the sum over its containers and
// sidecars, or more if an init container needs more while it runs; the pod's own
// requests where it states them; and its overhead.
func PodRequests(pod *v1.Pod) v1.ResourceList {
	total := v1.ResourceList{}
	for i := range pod.Spec.Containers {
		add(total, pod.Spec.Containers[i].Resources.Requests)
	}
	sidecars, peak := v1.ResourceList{}, v1.ResourceList{}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			add(sidecars, c.Resources.Requests)
			raise(peak, sidecars)
			continue
		}
		during := v1.ResourceList{}
		add(during, sidecars)
		add(during, c.Resources.Requests)
		raise(peak, during)
	}
	add(total, sidecars)
	raise(total, peak)
	if own := pod.Spec.Resources; own != nil {
		for name, q := range own.Requests {
			total[name] = q.DeepCopy()
		}
	}
	add(total, pod.Spec.Overhead)
	return total
}

// add adds b to a.
func add(a, b v1.ResourceList) {
	for name, q := range b {
		sum := a[name].DeepCopy()
		sum.Add(q)
		a[name] = sum
	}
}

// raise makes a at least b.
func raise(a, b v1.ResourceList) {
	for name, q := range b {
		if has, ok := a[name]; !ok || has.Cmp(q) < 0 {
			a[name] = q.DeepCopy()
		}
	}
}

func sortedNames(list v1.ResourceList) []v1.ResourceName {
	names := make([]v1.ResourceName, 0, len(list))
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// PodCount refuses a pod when limit pods are active already. 0 or negative: no
// limit.
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
		return Refuse(ReasonPods, "Node didn't have enough resource: pods, requested: 1, used: %d, capacity: %d", n, limit)
	})
}
