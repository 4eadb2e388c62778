package podinfo

import (
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// list makes amounts of CPU and memory; "" leaves one out.
func list(cpu, memory string) v1.ResourceList {
	l := v1.ResourceList{}
	if cpu != "" {
		l[v1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		l[v1.ResourceMemory] = resource.MustParse(memory)
	}
	return l
}

// requests and limits make a container that has only these.
func requests(cpu string) v1.Container {
	return v1.Container{Resources: v1.ResourceRequirements{Requests: list(cpu, "")}}
}

func limits(cpu string) v1.Container {
	return v1.Container{Resources: v1.ResourceRequirements{Limits: list(cpu, "")}}
}

func both(request, limit string) v1.Container {
	return v1.Container{Resources: v1.ResourceRequirements{Requests: list(request, ""), Limits: list(limit, "")}}
}

func sidecar(c v1.Container) v1.Container {
	c.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
	return c
}

// TestPodRequestAndLimit: spec/runtime.md 13.4, spec/status.md 6.7.
func TestPodRequestAndLimit(t *testing.T) {
	type containers = []v1.Container
	level := func(request, limit string) *v1.ResourceRequirements { return ptr.To(both(request, limit).Resources) }
	for _, test := range []struct {
		name           string
		spec           v1.PodSpec
		request, limit string
	}{
		{"nothing", v1.PodSpec{Containers: containers{{}}}, "0", "0"},
		{"apps are summed", v1.PodSpec{Containers: containers{requests("1"), requests("500m")}}, "1500m", "0"},
		{"a container with only a limit requests its limit", v1.PodSpec{Containers: containers{limits("2"), requests("1")}}, "3", "0"},
		{"a request of 0 is a request", v1.PodSpec{Containers: containers{both("0", "2")}}, "0", "2"},
		{"limits are summed if every container has one", v1.PodSpec{Containers: containers{limits("2"), both("1", "2")}}, "3", "4"},
		{"a limit of 0 is none", v1.PodSpec{Containers: containers{limits("2"), both("1", "0")}}, "3", "0"},
		{"an init container without a limit leaves the pod unlimited", v1.PodSpec{InitContainers: containers{{}}, Containers: containers{limits("1")}}, "1", "0"},
		{"init is a peak", v1.PodSpec{InitContainers: containers{limits("4"), limits("3")}, Containers: containers{limits("1")}}, "4", "4"},
		{"a small init container does not count", v1.PodSpec{InitContainers: containers{requests("1")}, Containers: containers{requests("2")}}, "2", "0"},
		{"sidecars run beside", v1.PodSpec{
			InitContainers: containers{sidecar(limits("1")), limits("4"), sidecar(limits("1"))}, Containers: containers{limits("1")},
		}, "5", "5"},
		{"sidecars are summed", v1.PodSpec{InitContainers: containers{sidecar(limits("1")), limits("2")}, Containers: containers{limits("2")}}, "3", "3"},
		{"overhead on top", v1.PodSpec{Containers: containers{both("1", "2")}, Overhead: list("250m", "")}, "1250m", "2250m"},
		{"overhead limits nothing", v1.PodSpec{Containers: containers{requests("1")}, Overhead: list("250m", "")}, "1250m", "0"},
		{"overhead alone", v1.PodSpec{Containers: containers{{}}, Overhead: list("250m", "")}, "250m", "0"},
		{"pod level replaces the sum", v1.PodSpec{Containers: containers{both("1", "1")}, Resources: level("8", "9")}, "8", "9"},
		{"a pod-level request of 0 replaces the sum", v1.PodSpec{Containers: containers{requests("1")}, Resources: level("0", "")}, "0", "0"},
		{"a pod-level limit without request leaves the sum", v1.PodSpec{Containers: containers{requests("1")}, Resources: level("", "9")}, "1", "9"},
		{"a pod-level limit is the request where no container has one", v1.PodSpec{Containers: containers{{}}, Resources: level("", "9")}, "9", "9"},
		{"a container's request of 0 counts beside a pod-level limit", v1.PodSpec{Containers: containers{requests("0")}, Resources: level("", "9")}, "0", "9"},
		{"a pod-level limit of 0 is none", v1.PodSpec{Containers: containers{limits("1")}, Resources: level("", "0")}, "1", "1"},
		{"and limits nothing", v1.PodSpec{Containers: containers{requests("1")}, Resources: level("", "0")}, "1", "0"},
		{"an empty pod level leaves the containers", v1.PodSpec{Containers: containers{limits("1")}, Resources: &v1.ResourceRequirements{}}, "1", "1"},
		{"overhead on top of the pod level", v1.PodSpec{Containers: containers{{}}, Resources: level("1", "2"), Overhead: list("1", "")}, "2", "3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := &v1.Pod{Spec: test.spec}
			request, limit := Request(pod, v1.ResourceCPU), Limit(pod, v1.ResourceCPU)
			if request.Cmp(resource.MustParse(test.request)) != 0 || limit.Cmp(resource.MustParse(test.limit)) != 0 {
				t.Errorf("request %s, limit %s; want %s, %s", request.String(), limit.String(), test.request, test.limit)
			}
			if got := Requests(pod)[v1.ResourceCPU]; got.Cmp(request) != 0 {
				t.Errorf("the list says %s, the resource alone %s", got.String(), request.String())
			}
		})
	}
}

func TestRequestsListsEveryResourceMentioned(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{
		Containers: []v1.Container{{Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{"example.com/gpu": resource.MustParse("1")}, Limits: list("", "1Gi"),
		}}},
		Overhead: list("1", ""),
	}}
	got := slices.Sorted(maps.Keys(Requests(pod)))
	if !slices.Equal(got, []v1.ResourceName{"cpu", "example.com/gpu", "memory"}) {
		t.Errorf("%v", got)
	}
	if got := Requests(&v1.Pod{}); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// TestSumsLeaveThePodAlone: amounts beyond 64 bits are kept behind a pointer.
func TestSumsLeaveThePodAlone(t *testing.T) {
	const huge = "100000000000000000000000000001"
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{sidecar(limits(huge)), limits(huge)}, Containers: []v1.Container{limits(huge), limits("1")},
		Resources: &v1.ResourceRequirements{Requests: list(huge, "")}, Overhead: list(huge, ""),
	}}
	before := pod.DeepCopy()
	for range 2 {
		Requests(pod)
		Limit(pod, v1.ResourceCPU)
		QoS(pod)
	}
	pod.Spec.Resources = nil
	Requests(pod)
	QoS(pod)
	for i, c := range append(slices.Clone(pod.Spec.InitContainers), pod.Spec.Containers...) {
		was := append(slices.Clone(before.Spec.InitContainers), before.Spec.Containers...)[i]
		if q := c.Resources.Limits[v1.ResourceCPU]; q.Cmp(was.Resources.Limits[v1.ResourceCPU]) != 0 {
			t.Errorf("container %d has %s", i, q.String())
		}
	}
	if q := pod.Spec.Overhead[v1.ResourceCPU]; q.Cmp(resource.MustParse(huge)) != 0 {
		t.Errorf("overhead %s", q.String())
	}
}
