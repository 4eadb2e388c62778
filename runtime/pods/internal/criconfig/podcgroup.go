package criconfig

import (
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
)

// PodCgroup returns the settings of the pod's own cgroup, overhead included
// (spec/runtime.md 13.4): shares from what the pod requests, and limits where every
// container, or the pod, has one. What is zero is not set.
func PodCgroup(pod *v1.Pod, node Node) *runtimeapi.LinuxContainerResources {
	cpu := PodRequest(pod, v1.ResourceCPU)
	out := linuxResources(cpu, podLimit(pod, v1.ResourceCPU), podLimit(pod, v1.ResourceMemory), node)
	if QoS(pod) == v1.PodQOSBestEffort {
		out.CpuShares = minShares
	}
	if node.CgroupV2 && node.TieredReservation { // 13.6
		memory := strconv.FormatInt(whole(PodRequest(pod, v1.ResourceMemory)), 10)
		out.Unified = map[string]string{"memory.min": "0", "memory.low": "0"}
		switch QoS(pod) {
		case v1.PodQOSGuaranteed:
			out.Unified["memory.min"] = memory
		case v1.PodQOSBurstable:
			out.Unified["memory.low"] = memory
		}
	}
	return out
}

// PodRequest returns what the pod as a whole requests of a resource, overhead
// included.
func PodRequest(pod *v1.Pod, name v1.ResourceName) resource.Quantity {
	q := podTotal(pod, name, request)
	q.Add(pod.Spec.Overhead[name])
	return q
}

// podLimit returns the limit of the pod as a whole, overhead included; zero if it is
// not limited.
func podLimit(pod *v1.Pod, name v1.ResourceName) resource.Quantity {
	q := podTotal(pod, name, limitIfAll(pod, name))
	if q.Sign() > 0 {
		q.Add(pod.Spec.Overhead[name])
	}
	return q
}

// PodTotals returns the CPU and memory of the pod as a whole, overhead included.
func PodTotals(pod *v1.Pod) runtime.Resources {
	return runtime.Resources{
		MilliCPURequest: milli(PodRequest(pod, v1.ResourceCPU)), MilliCPULimit: milli(podLimit(pod, v1.ResourceCPU)),
		MemoryRequest: whole(PodRequest(pod, v1.ResourceMemory)), MemoryLimit: whole(podLimit(pod, v1.ResourceMemory)),
	}
}

// LinuxResources returns the settings that stand for amounts (spec/runtime.md 13).
func LinuxResources(r runtime.Resources, node Node) *runtimeapi.LinuxContainerResources {
	out := &runtimeapi.LinuxContainerResources{CpuShares: Shares(r.MilliCPURequest), MemoryLimitInBytes: r.MemoryLimit}
	if node.CPUQuota {
		out.CpuPeriod, out.CpuQuota = node.CPUPeriod, Quota(r.MilliCPULimit, node.CPUPeriod)
	}
	return out
}
