package criconfig

import (
	"strconv"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime"
)

// PodCgroup returns the settings of the pod's own cgroup, overhead included
// (spec/runtime.md 13.4): shares from what the pod requests, and limits where every
// container, or the pod, has one. What is zero is not set.
func PodCgroup(pod *v1.Pod, node Node) *runtimeapi.LinuxContainerResources {
	cpu := podinfo.Request(pod, v1.ResourceCPU)
	out := linuxResources(cpu, podinfo.Limit(pod, v1.ResourceCPU), podinfo.Limit(pod, v1.ResourceMemory), node)
	if podinfo.QoS(pod) == v1.PodQOSBestEffort {
		out.CpuShares = minShares
	}
	out.HugepageLimits = podHugePages(pod, node)
	if node.CgroupV2 && node.TieredReservation { // 13.6
		memory := strconv.FormatInt(whole(podinfo.Request(pod, v1.ResourceMemory)), 10)
		out.Unified = map[string]string{"memory.min": "0", "memory.low": "0"}
		switch podinfo.QoS(pod) {
		case v1.PodQOSGuaranteed:
			out.Unified["memory.min"] = memory
		case v1.PodQOSBurstable:
			out.Unified["memory.low"] = memory
		}
	}
	return out
}

// podHugePages limits every size of huge page the machine has to what the pod requests, which
// is its limit too.
func podHugePages(pod *v1.Pod, node Node) []*runtimeapi.HugepageLimit {
	limits := map[int64]uint64{}
	for name, q := range podinfo.Requests(pod) {
		if size, huge := hugePageSize(name); huge {
			limits[size] += uint64(max(whole(q), 0))
		}
	}
	var out []*runtimeapi.HugepageLimit
	for _, size := range node.HugePageSizes {
		out = append(out, &runtimeapi.HugepageLimit{PageSize: pageSizeText(size), Limit: limits[size]})
	}
	return out
}

// PodTotals returns the CPU and memory of the pod as a whole, overhead included.
func PodTotals(pod *v1.Pod) runtime.Resources {
	return runtime.Resources{
		MilliCPURequest: milli(podinfo.Request(pod, v1.ResourceCPU)), MilliCPULimit: milli(podinfo.Limit(pod, v1.ResourceCPU)),
		MemoryRequest: whole(podinfo.Request(pod, v1.ResourceMemory)), MemoryLimit: whole(podinfo.Limit(pod, v1.ResourceMemory)),
	}
}

// LinuxResources returns the settings for these amounts (spec/runtime.md 13).
func LinuxResources(r runtime.Resources, node Node) *runtimeapi.LinuxContainerResources {
	out := &runtimeapi.LinuxContainerResources{CpuShares: Shares(r.MilliCPURequest), MemoryLimitInBytes: r.MemoryLimit}
	if node.CPUQuota {
		out.CpuPeriod, out.CpuQuota = node.CPUPeriod, Quota(r.MilliCPULimit, node.CPUPeriod)
	}
	return out
}
