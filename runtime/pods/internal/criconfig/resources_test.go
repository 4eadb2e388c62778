package criconfig_test

import (
	"fmt"
	"math"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime/pods/internal/criconfig"
)

// spec/runtime.md 3.3.
func TestCgroupParent(t *testing.T) {
	besteffort := requirements("", "", "", "")
	burstable := requirements("100m", "", "", "")
	guaranteed := requirements("", "1", "", "1Mi")
	for _, tc := range []struct {
		name    string
		off     bool
		systemd bool
		root    string
		r       v1.ResourceRequirements
		want    string
	}{
		{name: "off", off: true, root: "/", r: burstable, want: ""},
		{name: "guaranteed", root: "/", r: guaranteed, want: "/kubepods/podab-cd"},
		{name: "burstable", root: "/", r: burstable, want: "/kubepods/burstable/podab-cd"},
		{name: "best effort", root: "/", r: besteffort, want: "/kubepods/besteffort/podab-cd"},
		{name: "root", root: "/a/b-c", r: burstable, want: "/a/b-c/kubepods/burstable/podab-cd"},
		{name: "systemd guaranteed", systemd: true, root: "/", r: guaranteed, want: "/kubepods.slice/kubepods-podab_cd.slice"},
		{name: "systemd burstable", systemd: true, root: "/", r: burstable, want: "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podab_cd.slice"},
		{name: "systemd best effort", systemd: true, root: "/", r: besteffort, want: "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podab_cd.slice"},
		{name: "systemd root", systemd: true, root: "/b-c", r: guaranteed, want: "/b_c.slice/b_c-kubepods.slice/b_c-kubepods-podab_cd.slice"},
	} {
		pod := newPod(func(p *v1.Pod) { p.UID = "ab-cd"; p.Spec.Containers[0].Resources = tc.r })
		n := node
		n.PodCgroups, n.SystemdCgroups, n.CgroupRoot = !tc.off, tc.systemd, tc.root
		if got := criconfig.CgroupParent(pod, n); got != tc.want {
			t.Errorf("3.3 %s: %s, want %s", tc.name, got, tc.want)
		}
		config, err := criconfig.Sandbox(criconfig.SandboxInput{Pod: pod, Node: n})
		if err != nil || config.Linux.CgroupParent != tc.want {
			t.Errorf("3.3 %s: sandbox %v, err %v", tc.name, config, err)
		}
	}
}

func resources(n criconfig.Node, change ...func(*v1.Pod)) *runtimeapi.LinuxContainerResources {
	pod := newPod(change...)
	return criconfig.ContainerResources(pod, &pod.Spec.Containers[0], n)
}

func memory(request, limit string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Containers[0].Resources = requirements("", "", request, limit) }
}

// spec/runtime.md 13: huge pages.
func TestHugePages(t *testing.T) {
	n := node
	n.HugePageSizes = []int64{64 << 10, 2 << 20, 1 << 30}
	limits := func(list ...string) v1.ResourceList {
		out := v1.ResourceList{}
		for i := 0; i < len(list); i += 2 {
			out[v1.ResourceName(list[i])] = resource.MustParse(list[i+1])
		}
		return out
	}
	for _, tc := range []struct {
		name           string
		pod, container v1.ResourceList
		want           string
	}{
		{"none asked for", nil, nil, "64KB:0 2MB:0 1GB:0 "},
		{"the container's", nil, limits("hugepages-2Mi", "4Mi"), "64KB:0 2MB:4194304 1GB:0 "},
		{"the pod's", limits("hugepages-1Gi", "1Gi"), nil, "64KB:0 2MB:0 1GB:1073741824 "},
		{"container before pod", limits("hugepages-2Mi", "8Mi", "hugepages-1Gi", "1Gi"), limits("hugepages-2Mi", "4Mi"), "64KB:0 2MB:4194304 1GB:1073741824 "},
		{"another writing of the size", nil, limits("hugepages-2048Ki", "2Mi"), "64KB:0 2MB:2097152 1GB:0 "},
	} {
		got := ""
		for _, l := range resources(n, func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Limits = tc.container
			p.Spec.Resources = &v1.ResourceRequirements{Limits: tc.pod}
		}).HugepageLimits {
			got += fmt.Sprintf("%s:%d ", l.PageSize, l.Limit)
		}
		if got != tc.want {
			t.Errorf("13 huge pages, %s: %s, want %s", tc.name, got, tc.want)
		}
	}
	// A runtime may fail to set a limit that the kernel has no place for.
	n.NoHugetlb = true
	for want, list := range map[string]v1.ResourceList{"": nil, "2MB:4194304 ": limits("hugepages-2Mi", "4Mi")} {
		got := ""
		for _, l := range resources(n, func(p *v1.Pod) { p.Spec.Containers[0].Resources.Limits = list }).HugepageLimits {
			got += fmt.Sprintf("%s:%d ", l.PageSize, l.Limit)
		}
		if got != want {
			t.Errorf("13 huge pages of a kernel that does not limit them: %s, want %s", got, want)
		}
	}
	if got := resources(node).HugepageLimits; got != nil {
		t.Errorf("13: a machine without huge pages: %v", got)
	}
	for _, size := range []string{"hugepages-3Mi", "hugepages-", "hugepages-x", "hugepages-1e-999999999"} {
		pod := newPod(func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceName(size): resource.MustParse("1Mi")}
		})
		if _, err := build(t, pod); err == nil {
			t.Errorf("13: %s, which no machine has, is accepted", size)
		}
	}
}

// spec/runtime.md 13.5.
func TestSwapIsSharedByMemoryRequest(t *testing.T) {
	v1Node, v2Node := node, node
	v1Node.SwapController = true
	v2Node.SwapController, v2Node.CgroupV2, v2Node.LimitedSwap, v2Node.SwapCapacity = true, true, true, 500<<20
	noSwap, noController := v2Node, v2Node
	noSwap.LimitedSwap, noController.SwapController = false, false
	for _, tc := range []struct {
		name   string
		node   criconfig.Node
		change func(*v1.Pod)
		want   string // the v1 limit, then memory.swap.max
	}{
		{"v1: memory and swap together", v1Node, memory("", "10Mi"), "10485760 "},
		{"v1: no limit", v1Node, memory("10Mi", ""), "0 "},
		{"no controller", noController, memory("100Mi", ""), "0 "},
		{"v2: a tenth of memory, a tenth of swap", v2Node, memory("100Mi", ""), "0 52428800"},
		{"v2: with a higher limit", v2Node, memory("100Mi", "200Mi"), "0 52428800"},
		{"v2: NoSwap", noSwap, memory("100Mi", ""), "0 0"},
		{"v2: request is limit", v2Node, memory("100Mi", "100Mi"), "0 0"},
		{"v2: limit alone is the request", v2Node, memory("", "100Mi"), "0 0"},
		{"v2: nothing asked for", v2Node, func(p *v1.Pod) { p.Spec.Containers[0].Resources = requirements("1", "", "", "") }, "0 0"},
		{"v2: more than the node's memory", v2Node, memory("2000Mi", ""), "0 0"},
		{"v2: BestEffort", v2Node, memory("", ""), "0 0"},
		{"v2: critical by priority", v2Node, func(p *v1.Pod) { memory("100Mi", "")(p); p.Spec.Priority = ptr.To[int32](2000000000) }, "0 0"},
		{"v2: critical by class", v2Node, func(p *v1.Pod) { memory("100Mi", "")(p); p.Spec.PriorityClassName = "system-cluster-critical" }, "0 0"},
	} {
		r := resources(tc.node, tc.change)
		if got := fmt.Sprint(r.MemorySwapLimitInBytes) + " " + r.Unified["memory.swap.max"]; got != tc.want {
			t.Errorf("13.5 %s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

// spec/runtime.md 13.6.
func TestMemoryQoS(t *testing.T) {
	plain := node
	plain.CgroupV2, plain.MemoryFactor, plain.PageSize, plain.MemoryAllocatable = true, 0.9, 4096, 900<<20
	tiered, off, old := plain, plain, plain
	tiered.TieredReservation, off.MemoryFactor, old.CgroupV2 = true, 0, false
	guaranteed := func(p *v1.Pod) { p.Spec.Containers[0].Resources = requirements("", "1", "", "100Mi") }
	for _, tc := range []struct {
		name   string
		node   criconfig.Node
		change func(*v1.Pod)
		want   string // high, min, low
	}{
		{"off", off, memory("100Mi", "200Mi"), "  "},
		{"cgroup v1", old, memory("100Mi", "200Mi"), "  "},
		{"up to the limit", plain, memory("100Mi", "200Mi"), "199229440 0 0"},
		{"whole pages", plain, memory("1", "10000"), "8192 0 0"},
		{"up to what the node has", plain, memory("100Mi", ""), "859832320 0 0"},
		{"request is limit", plain, memory("100Mi", "100Mi"), " 0 0"},
		{"not above the request", plain, memory("100Mi", "104857601"), " 0 0"},
		{"BestEffort", plain, memory("", ""), " 0 0"},
		{"tiered Guaranteed", tiered, guaranteed, " 104857600 0"},
		{"tiered Burstable", tiered, memory("100Mi", "200Mi"), "199229440 0 104857600"},
		{"tiered BestEffort", tiered, memory("", ""), " 0 0"},
	} {
		u := resources(tc.node, tc.change).Unified
		if got := u["memory.high"] + " " + u["memory.min"] + " " + u["memory.low"]; got != tc.want {
			t.Errorf("13.6 %s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// spec/runtime.md 13.2: a container without a limit has the pod's.
func TestPodLevelLimits(t *testing.T) {
	for _, tc := range []struct {
		name           string
		container, pod v1.ResourceRequirements
		want           string // quota, memory limit
		qos            v1.PodQOSClass
	}{
		{"neither", requirements("", "", "", ""), requirements("1", "", "", ""), "0 0", v1.PodQOSBurstable},
		{"the pod's", requirements("", "", "", ""), requirements("1", "2", "1Mi", "2Mi"), "200000 2097152", v1.PodQOSBurstable},
		{"its own", requirements("", "1", "", "1Mi"), requirements("1", "2", "1Mi", "2Mi"), "100000 1048576", v1.PodQOSBurstable},
		{"one of each", requirements("", "1", "", ""), requirements("2", "2", "2Mi", "2Mi"), "100000 2097152", v1.PodQOSGuaranteed},
	} {
		pod := newPod(func(p *v1.Pod) { p.Spec.Containers[0].Resources, p.Spec.Resources = tc.container, &tc.pod })
		r := criconfig.ContainerResources(pod, &pod.Spec.Containers[0], node)
		if got := fmt.Sprint(r.CpuQuota, r.MemoryLimitInBytes); got != tc.want || podinfo.QoS(pod) != tc.qos {
			t.Errorf("13.2 %s: %s, %s; want %s, %s", tc.name, got, podinfo.QoS(pod), tc.want, tc.qos)
		}
	}
}

// spec/runtime.md 13.1, edge case 24, in whole numbers: no request, however
// large, and no node, however small, leaves 3..999, and more memory is never
// killed sooner.
func TestOOMScoreHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.Int64Range(1, math.MaxInt64).Draw(t, "capacity")
		small := rapid.Int64Range(0, math.MaxInt64).Draw(t, "small")
		large := rapid.Int64Range(small, math.MaxInt64).Draw(t, "large")
		score := func(bytes int64) int64 {
			pod := newPod(func(p *v1.Pod) {
				p.Spec.Containers[0].Resources = requirements("1m", "", "", "")
				p.Spec.Containers[0].Resources.Requests[v1.ResourceMemory] = *resource.NewQuantity(bytes, resource.BinarySI)
			})
			return criconfig.OOMScoreAdj(pod, &pod.Spec.Containers[0], capacity)
		}
		a, b := score(small), score(large)
		if a < b || a > 999 || b < 3 {
			t.Fatalf("13.1: %d of %d gives %d, %d gives %d", small, capacity, a, large, b)
		}
		if small < math.MaxInt64/1000 && capacity < math.MaxInt64/1000 {
			if want := min(max(1000-1000*small/capacity, 3), 999); a != want {
				t.Fatalf("13.1: %d of %d gives %d, want %d", small, capacity, a, want)
			}
		}
	})
	critical := newPod(func(p *v1.Pod) { p.Spec.PriorityClassName = "system-node-critical" })
	if got := criconfig.OOMScoreAdj(critical, &critical.Spec.Containers[0], 1); got != -997 {
		t.Errorf("13.1: a node-critical pod without a number: %d", got)
	}
	if got := criconfig.OOMScoreAdj(newPod(memory("1Gi", "")), &newPod(memory("1Gi", "")).Spec.Containers[0], 0); got != 999 {
		t.Errorf("13.1: a node that does not know its memory: %d", got)
	}
}

// Amounts that no machine can give are the container's error.
func TestImpossibleResources(t *testing.T) {
	for _, tc := range []struct {
		name string
		r    v1.ResourceRequirements
		pod  v1.ResourceRequirements
		ok   bool
	}{
		{name: "nothing", ok: true},
		{name: "equal", r: requirements("1", "1", "1Mi", "1Mi"), ok: true},
		{name: "more than any machine", r: requirements("9E", "9E", "8E", "999999999E"), ok: true},
		{name: "negative cpu", r: requirements("-1m", "", "", "")},
		{name: "negative memory", r: requirements("", "", "", "-1")},
		{name: "cpu above limit", r: requirements("2", "1", "", "")},
		{name: "memory above limit", r: requirements("", "", "2Mi", "1Mi")},
		{name: "pod's negative", pod: requirements("", "", "-1", "")},
		{name: "pod's above limit", pod: requirements("2", "1", "", "")},
	} {
		pod := newPod(func(p *v1.Pod) { p.Spec.Containers[0].Resources, p.Spec.Resources = tc.r, &tc.pod })
		config, err := build(t, pod)
		if (err == nil) != tc.ok {
			t.Errorf("13 %s: %v", tc.name, err)
		}
		if r := config.GetLinux().GetResources(); err == nil && (r.CpuQuota < 0 || r.MemoryLimitInBytes < 0 || r.CpuShares < 2) {
			t.Errorf("13 %s: %v", tc.name, r)
		}
	}
}
