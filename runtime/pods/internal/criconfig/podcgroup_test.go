package criconfig_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime/pods/internal/criconfig"
)

// spec/runtime.md 13.3, 13.4 and 13.6, as far as the pod's own cgroup goes.
func TestPodCgroup(t *testing.T) {
	list := func(cpu, memory string) v1.ResourceList {
		out := v1.ResourceList{}
		if cpu != "" {
			out[v1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			out[v1.ResourceMemory] = resource.MustParse(memory)
		}
		return out
	}
	of := func(requests, limits v1.ResourceList) v1.Container {
		return v1.Container{Resources: v1.ResourceRequirements{Requests: requests, Limits: limits}}
	}
	sidecar := func(c v1.Container) v1.Container {
		c.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
		return c
	}
	some, both := list("1", "1000"), list("2", "2000")
	for _, row := range []struct {
		name                  string
		spec                  v1.PodSpec
		class                 v1.PodQOSClass
		shares, quota, memory int64
		min, low              string
	}{
		{"13.4 BestEffort", v1.PodSpec{Containers: []v1.Container{of(nil, nil)}}, v1.PodQOSBestEffort, 2, 0, 0, "0", "0"},
		{"13.4 Guaranteed", v1.PodSpec{Containers: []v1.Container{of(nil, some), of(nil, both)}}, v1.PodQOSGuaranteed, 3072, 300000, 3000, "3000", "0"},
		{"13.4 Burstable with all limits", v1.PodSpec{Containers: []v1.Container{of(some, both), of(some, both)}}, v1.PodQOSBurstable, 2048, 400000, 4000, "0", "2000"},
		{"13.4 Burstable with some limits", v1.PodSpec{Containers: []v1.Container{of(some, both), of(some, list("2", ""))}}, v1.PodQOSBurstable, 2048, 400000, 0, "0", "2000"},
		{"13.4 Burstable without limits", v1.PodSpec{Containers: []v1.Container{of(some, nil), of(nil, both)}}, v1.PodQOSBurstable, 3072, 0, 0, "0", "3000"},
		{"13.4 init is a maximum", v1.PodSpec{InitContainers: []v1.Container{of(nil, list("5", "500"))}, Containers: []v1.Container{of(nil, some)}}, v1.PodQOSGuaranteed, 5120, 500000, 1000, "1000", "0"},
		{"13.4 sidecars are summed", v1.PodSpec{InitContainers: []v1.Container{sidecar(of(nil, some)), of(nil, both)}, Containers: []v1.Container{of(nil, both)}}, v1.PodQOSGuaranteed, 3072, 300000, 3000, "3000", "0"},
		{"13.4 overhead is added", v1.PodSpec{Containers: []v1.Container{of(nil, some)}, Overhead: list("500m", "24")}, v1.PodQOSGuaranteed, 1536, 150000, 1024, "1024", "0"},
		{"13.2 a limit of 0 is none", v1.PodSpec{Containers: []v1.Container{of(some, list("0", "0"))}}, v1.PodQOSBurstable, 1024, 0, 0, "0", "1000"},
		{"13.4 the pod level declares", v1.PodSpec{Containers: []v1.Container{of(nil, nil)}, Resources: &v1.ResourceRequirements{Requests: some, Limits: both}}, v1.PodQOSBurstable, 1024, 200000, 2000, "0", "1000"},
	} {
		t.Run(row.name, func(t *testing.T) {
			pod := &v1.Pod{Spec: row.spec}
			if got := podinfo.QoS(pod); got != row.class {
				t.Errorf("13.3: class %s, want %s", got, row.class)
			}
			node := criconfig.Node{CPUQuota: true, CPUPeriod: 100000, CgroupV2: true, MemoryFactor: 0.9, TieredReservation: true}
			got := criconfig.PodCgroup(pod, node)
			if got.GetCpuShares() != row.shares || got.GetCpuQuota() != row.quota || got.GetMemoryLimitInBytes() != row.memory {
				t.Errorf("%v, want shares %d quota %d memory %d", got, row.shares, row.quota, row.memory)
			}
			if u := got.GetUnified(); u["memory.min"] != row.min || u["memory.low"] != row.low {
				t.Errorf("13.6: %v, want min %s low %s", u, row.min, row.low)
			}
			node.TieredReservation = false
			if u := criconfig.PodCgroup(pod, node).GetUnified(); len(u) > 0 {
				t.Errorf("13.6: %v without reservation", u)
			}
		})
	}
}

// TestPodCgroupLimitsHugePages: spec/runtime.md 13.4. The pod has as many huge pages of each size
// as its containers together, and none of the other sizes.
func TestPodCgroupLimitsHugePages(t *testing.T) {
	list := v1.ResourceList{"hugepages-2Mi": resource.MustParse("4Mi"), "hugepages-2048Ki": resource.MustParse("2Mi")}
	c := v1.Container{Resources: v1.ResourceRequirements{Limits: list}}
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{c, c}}}
	got := map[string]uint64{}
	for _, l := range criconfig.PodCgroup(pod, criconfig.Node{HugePageSizes: []int64{2 << 20, 1 << 30}}).GetHugepageLimits() {
		got[l.GetPageSize()] = l.GetLimit()
	}
	if len(got) != 2 || got["2MB"] != 12<<20 || got["1GB"] != 0 {
		t.Errorf("%v", got)
	}
}
