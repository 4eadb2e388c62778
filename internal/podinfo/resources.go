package podinfo

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/internal/restartpolicy"
)

// ContainerRequest returns what a container requests of a resource: its request or, if it has none,
// its limit, as the API server would fill it in.
func ContainerRequest(r *v1.ResourceRequirements, name v1.ResourceName) resource.Quantity {
	if q, ok := r.Requests[name]; ok {
		return q.DeepCopy()
	}
	return r.Limits[name].DeepCopy()
}

// ContainerLimit returns what a container is limited to: its own limit, or the pod-level one if it
// has none or 0 (spec/runtime.md 13.2). Zero means that it is not limited.
func ContainerLimit(pod *v1.Pod, c *v1.Container, name v1.ResourceName) resource.Quantity {
	if q := c.Resources.Limits[name]; q.Sign() > 0 || pod.Spec.Resources == nil {
		return q.DeepCopy()
	}
	return pod.Spec.Resources.Limits[name].DeepCopy()
}

// Scarce reports whether a node has a resource only if it declares it: extended resources (such as
// nvidia.com/gpu), huge pages, and names unknown to this package (FD2).
func Scarce(name v1.ResourceName) bool {
	return name != v1.ResourceCPU && name != v1.ResourceMemory && name != v1.ResourceEphemeralStorage
}

// Requests returns everything the pod requests of its node, overhead included
// (spec/runtime.md 13.4).
func Requests(pod *v1.Pod) v1.ResourceList {
	out := v1.ResourceList{}
	collect := func(list v1.ResourceList) {
		for name := range list {
			if _, ok := out[name]; !ok {
				out[name] = Request(pod, name)
			}
		}
	}
	each(&pod.Spec, func(c *v1.Container) {
		collect(c.Resources.Requests)
		collect(c.Resources.Limits)
	})
	if level := pod.Spec.Resources; level != nil {
		collect(level.Requests)
		collect(level.Limits)
	}
	collect(pod.Spec.Overhead)
	return out
}

// Request returns what the pod requests of one resource, overhead included.
func Request(pod *v1.Pod, name v1.ResourceName) resource.Quantity {
	q := RequestWithoutOverhead(pod, name)
	q.Add(pod.Spec.Overhead[name])
	return q
}

// RequestWithoutOverhead returns what the pod requests of one resource: the pod-level
// request if there is one, otherwise the total of its containers.
func RequestWithoutOverhead(pod *v1.Pod, name v1.ResourceName) resource.Quantity {
	if q, ok := levelRequest(pod, name); ok {
		return q
	}
	return ContainersRequest(&pod.Spec, name)
}

// ContainersRequest returns what the containers request together, whatever the pod as a whole requests.
func ContainersRequest(spec *v1.PodSpec, name v1.ResourceName) resource.Quantity {
	return total(spec, func(r *v1.ResourceRequirements) resource.Quantity { return ContainerRequest(r, name) })
}

// ContainersLimit returns the total of the limits that the containers declare.
func ContainersLimit(spec *v1.PodSpec, name v1.ResourceName) resource.Quantity {
	return total(spec, func(r *v1.ResourceRequirements) resource.Quantity { return r.Limits[name].DeepCopy() })
}

// Claims returns, for each resource, the larger of what the pod as a whole and what its containers
// together request, overhead included. For a pod that an API server would accept, that is what
// [Requests] returns.
func Claims(pod *v1.Pod) v1.ResourceList {
	out := Requests(pod)
	for name, q := range out {
		sum := ContainersRequest(&pod.Spec, name)
		sum.Add(pod.Spec.Overhead[name])
		if sum.Cmp(q) > 0 {
			out[name] = sum
		}
	}
	return out
}

// levelRequest returns the pod-level request. A request of 0 is a request. A limit replaces a
// missing request only if no container mentions the resource, as in API defaulting.
func levelRequest(pod *v1.Pod, name v1.ResourceName) (q resource.Quantity, ok bool) {
	level := pod.Spec.Resources
	if level == nil {
		return q, false
	}
	if q, ok = level.Requests[name]; ok {
		return q.DeepCopy(), true
	}
	if q = level.Limits[name]; q.Sign() <= 0 || mentioned(&pod.Spec, name) {
		return resource.Quantity{}, false
	}
	return q.DeepCopy(), true
}

// mentioned reports whether a container requests or limits the resource.
func mentioned(spec *v1.PodSpec, name v1.ResourceName) bool {
	found := false
	each(spec, func(c *v1.Container) {
		_, requested := c.Resources.Requests[name]
		_, limited := c.Resources.Limits[name]
		found = found || requested || limited
	})
	return found
}

// Limit returns the limit of the pod as a whole, overhead included. Zero means that
// the pod is not limited.
func Limit(pod *v1.Pod, name v1.ResourceName) resource.Quantity {
	q := LimitWithoutOverhead(pod, name)
	if q.Sign() > 0 {
		q.Add(pod.Spec.Overhead[name])
	}
	return q
}

// LimitWithoutOverhead returns the pod-level limit or, if there is none, the total of the
// containers' limits, provided that every container has one. A limit of 0 means none.
func LimitWithoutOverhead(pod *v1.Pod, name v1.ResourceName) resource.Quantity {
	if level := pod.Spec.Resources; level != nil {
		if q := level.Limits[name]; q.Sign() > 0 {
			return q.DeepCopy()
		}
	}
	limited := true
	each(&pod.Spec, func(c *v1.Container) {
		q := c.Resources.Limits[name]
		limited = limited && q.Sign() > 0
	})
	if !limited {
		return resource.Quantity{}
	}
	return total(&pod.Spec, func(r *v1.ResourceRequirements) resource.Quantity { return r.Limits[name].DeepCopy() })
}

// DeclaredLimit returns the pod-level limit or the total of the limits that the containers declare,
// ignoring containers without one. Ephemeral storage is limited to that. Zero means no limit.
func DeclaredLimit(pod *v1.Pod, name v1.ResourceName) resource.Quantity {
	if level := pod.Spec.Resources; level != nil {
		if q := level.Limits[name]; q.Sign() > 0 {
			return q.DeepCopy()
		}
	}
	return ContainersLimit(&pod.Spec, name)
}

// total adds up app containers and sidecars, which run together. A regular init container runs
// together with the sidecars before it; the total is at least the highest of these peaks. of
// returns a copy of the amount to count.
func total(spec *v1.PodSpec, of func(*v1.ResourceRequirements) resource.Quantity) resource.Quantity {
	var running, peak resource.Quantity
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		q := of(&c.Resources)
		q.Add(running)
		if restartpolicy.IsSidecar(c) {
			running = q.DeepCopy()
		}
		if q.Cmp(peak) > 0 {
			peak = q
		}
	}
	for i := range spec.Containers {
		running.Add(of(&spec.Containers[i].Resources))
	}
	if running.Cmp(peak) >= 0 {
		return running
	}
	return peak
}

// each calls f for every init and app container.
func each(spec *v1.PodSpec, f func(*v1.Container)) {
	for i := range spec.InitContainers {
		f(&spec.InitContainers[i])
	}
	for i := range spec.Containers {
		f(&spec.Containers[i])
	}
}

// RequestedThroughout reports whether the pod, or each of its containers, requests some of a
// resource. An ephemeral container cannot.
func RequestedThroughout(pod *v1.Pod, name v1.ResourceName) bool {
	if q, ok := levelRequest(pod, name); ok {
		return q.Sign() > 0
	}
	all := len(pod.Spec.EphemeralContainers) == 0 // ephemeral containers can request nothing
	each(&pod.Spec, func(c *v1.Container) {
		q := ContainerRequest(&c.Resources, name)
		all = all && q.Sign() > 0
	})
	return all
}

// SameAmounts reports whether two lists name the same amounts. It looks up CPU and memory before it
// iterates over the lists: most hold nothing else, and two lookups cost less than an iteration.
func SameAmounts(a, b v1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	rest := len(a)
	for _, name := range [...]v1.ResourceName{v1.ResourceMemory, v1.ResourceCPU} {
		if rest == 0 {
			return true
		}
		if x, ok := a[name]; ok {
			if y, ok := b[name]; !ok || x.Cmp(y) != 0 {
				return false
			}
			rest--
		}
	}
	return rest == 0 || maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}
