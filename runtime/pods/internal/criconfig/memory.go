package criconfig

import (
	"math"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/podinfo"
)

// whole returns a quantity in whole units, the largest number if it has more.
func whole(q resource.Quantity) int64 {
	if q.CmpInt64(math.MaxInt64) >= 0 {
		return math.MaxInt64
	}
	return q.Value()
}

// milli returns a quantity in thousandths, or the largest number of them.
func milli(q resource.Quantity) int64 {
	if q.CmpInt64(math.MaxInt64/1000) >= 0 {
		return math.MaxInt64
	}
	return q.MilliValue()
}

// hugePages limits every size of huge page that the machine has: by the container's limit,
// or the pod's, or to zero if neither has one (spec/runtime.md 13). Where the kernel cannot
// limit them, zero limits are left out: with them, some runtimes cannot start the container.
func hugePages(pod *v1.Pod, c *v1.Container, node Node) []*runtimeapi.HugepageLimit {
	if len(node.HugePageSizes) == 0 {
		return nil
	}
	limits := map[int64]uint64{}
	for _, list := range []v1.ResourceList{podRequirements(pod).Limits, c.Resources.Limits} {
		for name, q := range list {
			if size, ok := hugePageSize(name); ok {
				limits[size] = uint64(max(whole(q), 0))
			}
		}
	}
	var out []*runtimeapi.HugepageLimit
	for _, size := range node.HugePageSizes {
		if limits[size] > 0 || !node.NoHugetlb {
			out = append(out, &runtimeapi.HugepageLimit{PageSize: pageSizeText(size), Limit: limits[size]})
		}
	}
	return out
}

// hugePageSize reads a resource name such as hugepages-2Mi.
func hugePageSize(name v1.ResourceName) (size int64, huge bool) {
	text, huge := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix)
	if !huge {
		return 0, false
	}
	if !podinfo.ReadableQuantity(text) {
		return 0, true
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, true // a size that no machine has
	}
	return whole(q), true
}

// pageSizeText writes a size as control groups name it: 2MB, 1GB.
func pageSizeText(size int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB", "PB"}
	unit := 0
	for size >= 1024 && size%1024 == 0 && unit < len(units)-1 {
		size /= 1024
		unit++
	}
	return strconv.FormatInt(size, 10) + units[unit]
}

// limitSwap keeps the container off the swap, or gives it a part in proportion to its
// memory request (spec/runtime.md 13.5).
func limitSwap(out *runtimeapi.LinuxContainerResources, pod *v1.Pod, c *v1.Container, node Node) {
	switch {
	case !node.SwapController:
	case node.CgroupV2:
		out.Unified["memory.swap.max"] = strconv.FormatInt(swapShare(pod, c, node), 10)
	default:
		// Version 1 limits the sum of both; there is no share of swap alone.
		out.MemorySwapLimitInBytes = out.MemoryLimitInBytes
	}
}

func swapShare(pod *v1.Pod, c *v1.Container, node Node) int64 {
	if !node.LimitedSwap || podinfo.QoS(pod) != v1.PodQOSBurstable || podinfo.Critical(pod) {
		return 0
	}
	wanted, limited := podinfo.ContainerRequest(&c.Resources, v1.ResourceMemory), c.Resources.Limits[v1.ResourceMemory]
	if wanted.Cmp(limited) == 0 {
		return 0
	}
	n := whole(wanted)
	if n <= 0 || node.MemoryCapacity <= 0 || n > node.MemoryCapacity {
		return 0
	}
	return int64(float64(n) / float64(node.MemoryCapacity) * float64(node.SwapCapacity))
}

// throttle slows a container down between its request and its limit, and protects
// its request (spec/runtime.md 13.6).
func throttle(unified map[string]string, pod *v1.Pod, c *v1.Container, node Node) {
	if node.MemoryFactor == 0 {
		return
	}
	wanted := whole(podinfo.ContainerRequest(&c.Resources, v1.ResourceMemory))
	most := podinfo.ContainerLimit(pod, c, v1.ResourceMemory)
	upper := whole(most)
	if wanted != upper {
		if most.IsZero() {
			upper = node.MemoryAllocatable
		}
		high := float64(wanted) + node.MemoryFactor*(float64(upper)-float64(wanted))
		if pages := int64(min(high/float64(node.PageSize), float64(math.MaxInt64/node.PageSize)/2)) * node.PageSize; pages > wanted {
			unified["memory.high"] = strconv.FormatInt(pages, 10)
		}
	}
	unified["memory.min"], unified["memory.low"] = "0", "0"
	if !node.TieredReservation {
		return
	}
	switch podinfo.QoS(pod) {
	case v1.PodQOSGuaranteed:
		unified["memory.min"] = strconv.FormatInt(wanted, 10)
	case v1.PodQOSBurstable:
		unified["memory.low"] = strconv.FormatInt(wanted, 10)
	}
}
