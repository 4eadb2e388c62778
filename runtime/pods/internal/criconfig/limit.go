package criconfig

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// podRequirements returns the pod-level resources, zero if none are set.
func podRequirements(pod *v1.Pod) v1.ResourceRequirements {
	if pod.Spec.Resources == nil {
		return v1.ResourceRequirements{}
	}
	return *pod.Spec.Resources
}

// limit returns the container's limit, or the pod's where it has none or 0
// (spec/runtime.md 13.2).
func limit(pod *v1.Pod, c *v1.Container, name v1.ResourceName) resource.Quantity {
	if q := c.Resources.Limits[name]; q.Sign() > 0 {
		return q
	}
	return podRequirements(pod).Limits[name]
}
