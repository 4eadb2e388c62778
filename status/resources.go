package status

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/internal/restartpolicy"
)

// podResources sets what the pod as a whole was given (spec/status.md 6.7): the
// sum of the requests, and the pod-level resources if the spec has any.
func (g *generator) podResources(s *v1.PodStatus) {
	s.Resources = g.pod.Spec.Resources
	// The same spec has the same sum, unless some of it is not allocated yet.
	if g.pod.Generation != 0 && g.pod.Generation == g.old.ObservedGeneration && g.old.AllocatedResources != nil && len(g.in.Resize) == 0 {
		s.AllocatedResources = g.old.AllocatedResources
		return
	}
	if sum := podRequests(&g.pod.Spec); len(sum) > 0 {
		s.AllocatedResources = sum
	}
}

// podRequests adds up what a pod requests: app containers and sidecars run
// together, a regular init container beside the sidecars before it alone. Pod-level
// requests replace the sum, resource by resource; overhead comes on top
// (spec/runtime.md 13.4).
func podRequests(spec *v1.PodSpec) v1.ResourceList {
	sum, peak := v1.ResourceList{}, v1.ResourceList{}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if restartpolicy.IsSidecar(c) {
			addRequests(sum, &c.Resources)
			continue
		}
		alone := sum.DeepCopy()
		addRequests(alone, &c.Resources)
		raise(peak, alone)
	}
	for i := range spec.Containers {
		addRequests(sum, &spec.Containers[i].Resources)
	}
	raise(sum, peak)
	if spec.Resources != nil {
		level := v1.ResourceList{}
		addRequests(level, spec.Resources)
		for name, amount := range level {
			sum[name] = amount
		}
	}
	for name, amount := range spec.Overhead {
		add(sum, name, amount)
	}
	return sum
}

// addRequests adds the requests of one container; a limit without a request is
// the request.
func addRequests(to v1.ResourceList, r *v1.ResourceRequirements) {
	for name, amount := range r.Requests {
		add(to, name, amount)
	}
	for name, amount := range r.Limits {
		if _, ok := r.Requests[name]; !ok {
			add(to, name, amount)
		}
	}
}

func add(to v1.ResourceList, name v1.ResourceName, amount resource.Quantity) {
	total := to[name].DeepCopy()
	total.Add(amount)
	to[name] = total
}

// raise makes every amount at least that of floor.
func raise(to, floor v1.ResourceList) {
	for name, amount := range floor {
		if have, ok := to[name]; !ok || have.Cmp(amount) < 0 {
			to[name] = amount.DeepCopy()
		}
	}
}
