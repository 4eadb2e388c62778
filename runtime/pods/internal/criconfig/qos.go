package criconfig

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// request returns what the container asks for: its request, or its limit where
// it has only that.
func request(r v1.ResourceRequirements, name v1.ResourceName) resource.Quantity {
	if q, ok := r.Requests[name]; ok {
		return q
	}
	return r.Limits[name]
}

// podRequirements returns the pod-level resources, zero if none are set.
func podRequirements(pod *v1.Pod) v1.ResourceRequirements {
	if pod.Spec.Resources == nil {
		return v1.ResourceRequirements{}
	}
	return *pod.Spec.Resources
}

// limit returns the container's limit, or the pod's where it has none
// (spec/runtime.md 13.2).
func limit(pod *v1.Pod, c *v1.Container, name v1.ResourceName) resource.Quantity {
	if q, ok := c.Resources.Limits[name]; ok {
		return q
	}
	return podRequirements(pod).Limits[name]
}

// QoS returns the pod's quality of service class (spec/runtime.md 13.3).
func QoS(pod *v1.Pod) v1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	lists := make([]v1.ResourceRequirements, 0, len(pod.Spec.Containers)+len(pod.Spec.InitContainers))
	if pod.Spec.Resources != nil {
		lists = append(lists, *pod.Spec.Resources)
	} else {
		for i := range pod.Spec.Containers {
			lists = append(lists, pod.Spec.Containers[i].Resources)
		}
		for i := range pod.Spec.InitContainers {
			lists = append(lists, pod.Spec.InitContainers[i].Resources)
		}
	}
	guaranteed, any := true, false
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		var requests, limits resource.Quantity
		for _, r := range lists {
			l := r.Limits[name]
			q := request(r, name)
			if l.Sign() > 0 {
				limits.Add(l)
			} else {
				guaranteed = false
			}
			if q.Sign() > 0 {
				requests.Add(q)
			}
		}
		if requests.Sign() > 0 || limits.Sign() > 0 {
			any = true
		}
		if requests.Cmp(limits) != 0 {
			guaranteed = false
		}
	}
	switch {
	case !any:
		return v1.PodQOSBestEffort
	case guaranteed:
		return v1.PodQOSGuaranteed
	}
	return v1.PodQOSBurstable
}
