package status

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podinfo"
)

// podResources sets what the pod as a whole was given (spec/status.md 6.7): the sum of the
// requests, and the pod-level resources if the spec has any. While the pod runs, its cgroup says
// what these are, except for the memory request, which no cgroup has.
func (g *generator) podResources(s *v1.PodStatus) {
	s.Resources = g.pod.Spec.Resources
	if have := g.in.PodResources; s.Resources != nil && s.Phase == v1.PodRunning {
		o := overlay{allocated: s.Resources, out: s.Resources}
		o.set(v1.ResourceCPU, false, have.MilliCPURequest, leastMilliRequest)
		o.set(v1.ResourceCPU, true, have.MilliCPULimit, leastMilliLimit)
		o.set(v1.ResourceMemory, true, have.MemoryLimit, 0)
		s.Resources = o.out
	}
	// The same spec has the same sum, unless part of it is not allocated yet.
	if g.pod.Generation != 0 && g.pod.Generation == g.old.ObservedGeneration && g.old.AllocatedResources != nil && len(g.in.Resize) == 0 {
		s.AllocatedResources = g.old.AllocatedResources
		return
	}
	if sum := podinfo.Requests(g.pod); len(sum) > 0 {
		s.AllocatedResources = sum
	}
}
