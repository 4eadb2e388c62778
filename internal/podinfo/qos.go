package podinfo

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// QoS returns the pod's quality-of-service class: the one in its status, otherwise the one that
// follows from its resources (spec/runtime.md 13.2, 13.3). Only positive amounts of CPU and memory
// count. Pod-level resources replace those of the containers, unless they are empty.
func QoS(pod *v1.Pod) v1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	some, guaranteed := false, true
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		a := qosAmountsOf(pod, name)
		some = some || a.requests.Sign() > 0 || a.limits.Sign() > 0
		guaranteed = guaranteed && a.allLimited && a.requests.Cmp(a.limits) == 0
	}
	switch {
	case !some:
		return v1.PodQOSBestEffort
	case guaranteed:
		return v1.PodQOSGuaranteed
	}
	return v1.PodQOSBurstable
}

// qosAmounts holds what decides the class for one resource.
type qosAmounts struct {
	requests, limits resource.Quantity
	// allLimited is set if every list that counts has a limit.
	allLimited bool
}

func qosAmountsOf(pod *v1.Pod, name v1.ResourceName) qosAmounts {
	a := qosAmounts{allLimited: true}
	if level := pod.Spec.Resources; level != nil && len(level.Requests)+len(level.Limits) > 0 {
		var request resource.Quantity
		if len(level.Limits) > 0 {
			request = RequestWithoutOverhead(pod, name) // defaults are filled in only where there is a limit
		} else {
			request = level.Requests[name]
		}
		a.add(request, level.Limits[name])
		return a
	}
	each(&pod.Spec, func(c *v1.Container) {
		a.add(ContainerRequest(&c.Resources, name), c.Resources.Limits[name])
	})
	return a
}

func (a *qosAmounts) add(request, limit resource.Quantity) {
	if request.Sign() > 0 {
		a.requests.Add(request)
	}
	if limit.Sign() > 0 {
		a.limits.Add(limit)
	} else {
		a.allLimited = false
	}
}
