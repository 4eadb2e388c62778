package status

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podinfo"
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
	if sum := podinfo.Requests(g.pod); len(sum) > 0 {
		s.AllocatedResources = sum
	}
}
