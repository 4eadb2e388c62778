package status

import (
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime"
)

// cpus makes requests of so many CPUs.
func cpus(n string) v1.ResourceRequirements {
	return v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(n)}}
}

// TestPodResources: spec/status.md 6.7.
func TestPodResources(t *testing.T) {
	sidecar := ptr.To(v1.ContainerRestartPolicyAlways)
	app := func(n string) v1.Container { return v1.Container{Name: "app" + n, Resources: cpus(n)} }
	for _, test := range []struct {
		name string
		spec v1.PodSpec
		want string
	}{
		{"apps are summed", v1.PodSpec{Containers: []v1.Container{app("1"), app("500m")}}, "1500m"},
		{"a limit is a request", v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Limits: cpus("2").Requests}}}}, "2"},
		{"init is a peak", v1.PodSpec{InitContainers: []v1.Container{app("4"), app("3")}, Containers: []v1.Container{app("1")}}, "4"},
		{"small init does not count", v1.PodSpec{InitContainers: []v1.Container{app("1")}, Containers: []v1.Container{app("2")}}, "2"},
		{"sidecars run beside", v1.PodSpec{
			InitContainers: []v1.Container{{Resources: cpus("1"), RestartPolicy: sidecar}, app("4"), {Resources: cpus("1"), RestartPolicy: sidecar}},
			Containers:     []v1.Container{app("1")},
		}, "5"},
		{"overhead on top", v1.PodSpec{Containers: []v1.Container{app("1")}, Overhead: cpus("250m").Requests}, "1250m"},
		{"pod level replaces the sum", v1.PodSpec{Containers: []v1.Container{app("1")}, Resources: ptr.To(cpus("8"))}, "8"},
		{"nothing requested", v1.PodSpec{Containers: []v1.Container{{Name: "a"}}}, "0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := newPod()
			pod.Spec = test.spec
			s := generate(t, Input{Pod: pod})
			if got := s.AllocatedResources.Cpu(); got.Cmp(resource.MustParse(test.want)) != 0 {
				t.Errorf("%s, want %s", got, test.want)
			}
			if (s.Resources == nil) != (pod.Spec.Resources == nil) {
				t.Errorf("resources %v", s.Resources)
			}
		})
	}
	t.Run("what the cgroup says counts while the pod runs", func(t *testing.T) {
		pod := newPod(apps("a"))
		list := func(cpu, memory string) v1.ResourceList {
			return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
		}
		pod.Spec.Resources = &v1.ResourceRequirements{Requests: list("1", "64Mi"), Limits: list("2", "128Mi")}
		have := runtime.Resources{MilliCPURequest: 1500, MilliCPULimit: 2500, MemoryLimit: 256 << 20}
		running := Input{Pod: pod, Runtime: view(record("a", 0, runtime.Running)), PodResources: have}
		want := v1.ResourceRequirements{Requests: list("1500m", "64Mi"), Limits: list("2500m", "256Mi")}
		if s := generate(t, running); !equality.Semantic.DeepEqual(*s.Resources, want) {
			t.Errorf("running: %v", s.Resources)
		}
		pending := Input{Pod: pod, Runtime: view(), PodResources: have}
		unknown := Input{Pod: pod, Runtime: view(record("a", 0, runtime.Running))}
		for name, in := range map[string]Input{"pending": pending, "unknown": unknown} {
			if s := generate(t, in); !equality.Semantic.DeepEqual(s.Resources, pod.Spec.Resources) {
				t.Errorf("%s: %v", name, s.Resources)
			}
		}
	})
	t.Run("a new generation is summed again", func(t *testing.T) {
		pod := newPod()
		pod.Spec.Containers = []v1.Container{app("1")}
		old := generate(t, Input{Pod: pod})
		pod = pod.DeepCopy()
		pod.Generation++
		pod.Spec.Containers[0].Resources = cpus("2")
		s := generate(t, Input{Pod: pod, Old: &old, Runtime: view(record("app1", 0, runtime.Running))})
		if got := s.AllocatedResources.Cpu().String(); got != "2" {
			t.Errorf("%s", got)
		}
		if got := slices.Collect(maps.Keys(s.AllocatedResources)); len(got) != 1 {
			t.Errorf("%v", got)
		}
	})
}
