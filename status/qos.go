package status

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// QOSClass returns the quality-of-service class of a pod: the one its status
// says, else what its resources add up to (spec/runtime.md 13.3). It never
// changes during the life of a pod.
func QOSClass(pod *v1.Pod) v1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	var n qosSums
	if pod.Spec.Resources != nil && (len(pod.Spec.Resources.Requests) > 0 || len(pod.Spec.Resources.Limits) > 0) {
		n.add(pod.Spec.Resources) // pod-level lists alone count (13.2)
		return n.class()
	}
	for i := range pod.Spec.InitContainers {
		n.add(&pod.Spec.InitContainers[i].Resources)
	}
	for i := range pod.Spec.Containers {
		n.add(&pod.Spec.Containers[i].Resources)
	}
	return n.class()
}

// qosSums adds up what decides the class: positive amounts of CPU and memory.
type qosSums struct {
	cpu, memory qosSum
	// partial is set if some container lacks one of the two limits.
	partial bool
}

// qosSum is one resource over all containers.
type qosSum struct {
	requests, limits resource.Quantity
}

func (n *qosSums) add(r *v1.ResourceRequirements) {
	cpu := n.cpu.add(r, v1.ResourceCPU)
	memory := n.memory.add(r, v1.ResourceMemory)
	n.partial = n.partial || !cpu || !memory
}

// add reports whether there is a limit.
func (n *qosSum) add(r *v1.ResourceRequirements, name v1.ResourceName) bool {
	limit, limited := r.Limits[name]
	limited = limited && limit.Sign() > 0
	if limited {
		n.limits.Add(limit)
	}
	if request, ok := r.Requests[name]; ok {
		if request.Sign() > 0 {
			n.requests.Add(request)
		}
	} else if limited {
		n.requests.Add(limit) // a limit without a request is the request
	}
	return limited
}

func (n *qosSums) class() v1.PodQOSClass {
	switch {
	case n.cpu.zero() && n.memory.zero():
		return v1.PodQOSBestEffort
	case !n.partial && n.cpu.equal() && n.memory.equal():
		return v1.PodQOSGuaranteed
	}
	return v1.PodQOSBurstable
}

func (n *qosSum) zero() bool  { return n.requests.IsZero() && n.limits.IsZero() }
func (n *qosSum) equal() bool { return n.requests.Cmp(n.limits) == 0 }
