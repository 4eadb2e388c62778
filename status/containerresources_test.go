package status

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/runtime"
)

// TestContainerResources: spec/status.md 6.6.
func TestContainerResources(t *testing.T) {
	amounts := func(cpu, memory string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
	}
	allocated := v1.ResourceRequirements{Requests: amounts("100m", "10"), Limits: amounts("1", "1000")}
	small := v1.ResourceRequirements{Requests: amounts("1m", "10"), Limits: amounts("5m", "1000")}
	full := runtime.Resources{MilliCPURequest: 200, MilliCPULimit: 2000, MemoryRequest: 20, MemoryLimit: 2000}
	reported := func(r runtime.Resources, state runtime.State, n int) *runtime.ContainerStatus {
		c := record("a", n, state)
		c.Resources = r
		return c
	}
	for _, row := range []struct {
		name      string
		allocated v1.ResourceRequirements
		record    *runtime.ContainerStatus
		actuated  runtime.Resources
		// old is what the status showed of run 0, which ran.
		old  *v1.ResourceRequirements
		want string
	}{
		{"6.6 nothing known", allocated, record("a", 0, runtime.Running), runtime.Resources{}, nil, "100m 10 1 1k"},
		{"6.6 reported", allocated, reported(full, runtime.Running, 0), runtime.Resources{}, nil, "200m 20 2 2k"},
		{"6.6 not running", allocated, reported(full, runtime.Exited, 0), full, nil, "100m 10 1 1k"},
		{"6.6 memory request from the record", allocated, reported(runtime.Resources{MilliCPURequest: 200, MilliCPULimit: 2000, MemoryLimit: 2000}, runtime.Running, 0), full, nil, "200m 20 2 2k"},
		{"1.8 gaps are filled from the record", allocated, record("a", 0, runtime.Running), full, nil, "200m 20 2 2k"},
		{"6.6 a report wins", allocated, reported(runtime.Resources{MemoryLimit: 3000}, runtime.Running, 0), full, nil, "200m 20 2 3k"},
		{"6.6 smallest amounts look alike", small, reported(runtime.Resources{MilliCPURequest: 2, MilliCPULimit: 10, MemoryLimit: 1000}, runtime.Running, 0), runtime.Resources{}, nil, "1m 10 5m 1k"},
		{"6.6 small and not smallest", small, reported(runtime.Resources{MilliCPURequest: 3, MilliCPULimit: 11, MemoryLimit: 1000}, runtime.Running, 0), runtime.Resources{}, nil, "3m 10 11m 1k"},
		{"6.6 the same run keeps what was known", allocated, record("a", 0, runtime.Running), runtime.Resources{}, &v1.ResourceRequirements{Requests: amounts("300m", "30"), Limits: amounts("3", "3000")}, "300m 30 3 3k"},
		{"6.6 another run does not", allocated, record("a", 1, runtime.Running), runtime.Resources{}, &v1.ResourceRequirements{Requests: amounts("300m", "30"), Limits: amounts("3", "3000")}, "100m 10 1 1k"},
		{"6.6 absent lists stay absent", v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("1000")}}, reported(full, runtime.Running, 0), full, nil, "0 0 0 2k"},
	} {
		t.Run(row.name, func(t *testing.T) {
			pod := newPod()
			pod.Spec.Containers = []v1.Container{{Name: "a", Resources: row.allocated}}
			in := Input{Pod: pod, Runtime: view(row.record), Actuated: map[string]runtime.Resources{"a": row.actuated}}
			if row.old != nil {
				old := generate(t, Input{Pod: pod, Runtime: view(record("a", 0, runtime.Running))})
				old.ContainerStatuses[0].Resources = row.old
				in.Old = &old
			}
			got := generate(t, in).ContainerStatuses[0]
			r := got.Resources
			text := r.Requests.Cpu().String() + " " + r.Requests.Memory().String() + " " + r.Limits.Cpu().String() + " " + r.Limits.Memory().String()
			if text != row.want {
				t.Errorf("%s, want %s", text, row.want)
			}
			if (r.Requests == nil) != (row.allocated.Requests == nil) {
				t.Errorf("requests %v", r.Requests)
			}
		})
	}
	t.Run("6.6 no resources at all", func(t *testing.T) {
		pod := newPod()
		pod.Spec.Containers = []v1.Container{{Name: "a"}}
		if got := generate(t, Input{Pod: pod, Runtime: view(reported(full, runtime.Running, 0))}); got.ContainerStatuses[0].Resources != nil {
			t.Errorf("%+v", got.ContainerStatuses[0].Resources)
		}
	})
	t.Run("6.7 allocated anew while a resize goes on", func(t *testing.T) {
		pod := newPod()
		pod.Spec.Containers = []v1.Container{{Name: "a", Resources: allocated}}
		old := generate(t, Input{Pod: pod, Runtime: view(record("a", 0, runtime.Running))})
		pod = pod.DeepCopy() // the same generation, allocated only now
		pod.Spec.Containers[0].Resources.Requests = amounts("300m", "30")
		got := generate(t, Input{
			Pod: pod, Old: &old, Runtime: view(record("a", 0, runtime.Running)),
			Resize: []v1.PodCondition{{Type: v1.PodResizeInProgress, Status: v1.ConditionTrue}},
		})
		if got.AllocatedResources.Cpu().String() != "300m" {
			t.Errorf("%v", got.AllocatedResources)
		}
	})
}
