package criconfig

import v1 "k8s.io/api/core/v1"

// podRequirements returns the pod-level resources, zero if none are set.
func podRequirements(pod *v1.Pod) v1.ResourceRequirements {
	if pod.Spec.Resources == nil {
		return v1.ResourceRequirements{}
	}
	return *pod.Spec.Resources
}
