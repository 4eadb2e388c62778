package criconfig

import (
	"math/bits"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/restartpolicy"
)

// Numbers of spec/runtime.md 13.
const (
	minShares = 2
	maxShares = 262144
	minQuota  = 1000

	oomGuaranteed = -997
	oomBestEffort = 1000
	oomLowest     = 3
	oomHighest    = 999
)

// Shares turns milli CPUs into cgroup shares.
func Shares(milli int64) int64 {
	if milli <= 0 {
		return minShares
	}
	if milli > maxShares {
		// Beyond the largest share anyway, and the product below stays small.
		return maxShares
	}
	return min(max(milli*1024/1000, minShares), maxShares)
}

// Quota turns a limit in milli CPUs into a quota for a period in microseconds;
// no limit is no quota.
func Quota(milli, period int64) int64 {
	if milli <= 0 {
		return 0
	}
	const most = 1 << 40 // far beyond any machine, keeps the product in range
	return max(minQuota, min(milli, most)*period/1000)
}

// ContainerResources returns the container's Linux resources (spec/runtime.md 13).
func ContainerResources(pod *v1.Pod, c *v1.Container, node Node) *runtimeapi.LinuxContainerResources {
	cpuLimit := podinfo.ContainerLimit(pod, c, v1.ResourceCPU)
	memory := podinfo.ContainerLimit(pod, c, v1.ResourceMemory)
	cpu, ok := c.Resources.Requests[v1.ResourceCPU]
	if !ok {
		cpu = cpuLimit
	}
	out := linuxResources(cpu, cpuLimit, memory, node)
	out.OomScoreAdj = OOMScoreAdj(pod, c, node.MemoryCapacity)
	out.HugepageLimits = hugePages(pod, c, node)
	if node.CgroupV2 {
		out.Unified = map[string]string{"memory.oom.group": "1"}
		throttle(out.Unified, pod, c, node)
	}
	limitSwap(out, pod, c, node)
	return out
}

func linuxResources(cpu, cpuLimit, memory resource.Quantity, node Node) *runtimeapi.LinuxContainerResources {
	out := &runtimeapi.LinuxContainerResources{CpuShares: Shares(milli(cpu))}
	if node.CPUQuota {
		out.CpuPeriod = node.CPUPeriod
		out.CpuQuota = Quota(milli(cpuLimit), node.CPUPeriod)
	}
	if memory.Sign() > 0 {
		out.MemoryLimitInBytes = whole(memory)
	}
	return out
}

// OOMScoreAdj returns how readily the kernel kills the container when memory runs out
// (spec/runtime.md 13.1).
func OOMScoreAdj(pod *v1.Pod, c *v1.Container, capacity int64) int64 {
	if podinfo.NodeCritical(pod) {
		return oomGuaranteed
	}
	switch podinfo.QoS(pod) {
	case v1.PodQOSGuaranteed:
		return oomGuaranteed
	case v1.PodQOSBestEffort:
		return oomBestEffort
	}
	share := memoryShare(pod)
	score := burstableScore(whole(podinfo.ContainerRequest(&c.Resources, v1.ResourceMemory)), share, capacity)
	if restartpolicy.IsSidecar(c) && len(pod.Spec.Containers) > 0 {
		smallest := int64(-1)
		for i := range pod.Spec.Containers {
			if v := whole(podinfo.ContainerRequest(&pod.Spec.Containers[i].Resources, v1.ResourceMemory)); smallest < 0 || v < smallest {
				smallest = v
			}
		}
		score = min(score, burstableScore(smallest, share, capacity))
	}
	return score
}

func burstableScore(bytes, share, capacity int64) int64 {
	sum := uint64(max(bytes, 0)) + uint64(max(share, 0))
	if capacity <= 0 {
		return oomHighest
	}
	if sum >= uint64(capacity) {
		return oomLowest
	}
	// 128 bits wide: a thousand times a huge request does not fit in 64.
	high, low := bits.Mul64(1000, sum)
	part, _ := bits.Div64(high, low, uint64(capacity))
	return min(max(1000-int64(part), oomLowest), oomHighest)
}

// memoryShare is each container's part of the pod-level memory request that no
// container asks for.
func memoryShare(pod *v1.Pod) int64 {
	total, ok := podRequirements(pod).Requests[v1.ResourceMemory]
	if !ok {
		return 0
	}
	rest := whole(total)
	n := int64(len(pod.Spec.Containers) + len(pod.Spec.InitContainers))
	for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			// Checked each time, so that huge requests cannot make it wrap around.
			if rest -= max(whole(podinfo.ContainerRequest(&list[i].Resources, v1.ResourceMemory)), 0); rest <= 0 {
				return 0
			}
		}
	}
	if n == 0 {
		return 0
	}
	return rest / n
}

// sandboxResources returns what the pod as a whole asks for, and its overhead
// with request equal to limit (spec/runtime.md 3.10).
func sandboxResources(pod *v1.Pod, over v1.ResourceList, node Node) (resources, overhead *runtimeapi.LinuxContainerResources) {
	cpu := podinfo.RequestWithoutOverhead(pod, v1.ResourceCPU)
	cpuLimit := podinfo.LimitWithoutOverhead(pod, v1.ResourceCPU)
	memory := podinfo.LimitWithoutOverhead(pod, v1.ResourceMemory)
	resources = linuxResources(cpu, cpuLimit, memory, node)
	if len(pod.Spec.Overhead) > 0 {
		over = pod.Spec.Overhead
	}
	overhead = linuxResources(over[v1.ResourceCPU], over[v1.ResourceCPU], over[v1.ResourceMemory], node)
	return resources, overhead
}
