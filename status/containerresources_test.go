package status

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

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
		{"6.6 a request that was taken out is gone", v1.ResourceRequirements{Limits: allocated.Limits}, record("a", 0, runtime.Running), runtime.Resources{}, &allocated, "0 0 1 1k"},
		{"6.6 a limit that was taken out is gone", v1.ResourceRequirements{Requests: allocated.Requests}, record("a", 0, runtime.Running), runtime.Resources{}, &allocated, "100m 10 0 0"},
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
		got := generate(t, Input{Pod: pod, Runtime: view(reported(full, runtime.Running, 0))}).ContainerStatuses[0].Resources
		if got == nil || got.Requests != nil || got.Limits != nil {
			t.Errorf("%+v", got)
		}
	})
	t.Run("6.7 allocated again while a resize goes on", func(t *testing.T) {
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

// TestContainerResourcesAtRandom: spec/status.md 6.6: whatever was reported before, the
// same amounts come out, resource by resource, and what says the same is kept.
func TestContainerResourcesAtRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, "example.com/gpu"}
		list := rapid.Custom(func(t *rapid.T) v1.ResourceList {
			out := v1.ResourceList{}
			for _, name := range names {
				if text := rapid.SampledFrom([]string{"", "1", "2", "11"}).Draw(t, string(name)); text != "" {
					out[name] = resource.MustParse(text)
				}
			}
			return out
		})
		resources := rapid.Custom(func(t *rapid.T) v1.ResourceRequirements {
			return v1.ResourceRequirements{Requests: list.Draw(t, "requests"), Limits: list.Draw(t, "limits")}
		})
		known := rapid.Custom(func(t *rapid.T) runtime.Resources {
			if rapid.Bool().Draw(t, "unknown") {
				return runtime.Resources{}
			}
			cpu, memory := rapid.SampledFrom([]int64{0, 0, 1000, 2000}), rapid.SampledFrom([]int64{0, 0, 1, 2})
			return runtime.Resources{
				MilliCPURequest: cpu.Draw(t, "a"), MilliCPULimit: cpu.Draw(t, "b"), MemoryRequest: memory.Draw(t, "c"), MemoryLimit: memory.Draw(t, "d"),
			}
		})
		allocated, old := resources.Draw(t, "allocated"), resources.Draw(t, "old")
		if rapid.Bool().Draw(t, "as allocated") {
			old = *allocated.DeepCopy()
			side := rapid.SampledFrom([]v1.ResourceList{old.Requests, old.Limits}).Draw(t, "side")
			switch name := rapid.SampledFrom(names).Draw(t, "name"); rapid.SampledFrom([]string{"", "more", "less"}).Draw(t, "but") {
			case "more":
				side[name] = resource.MustParse("1")
			case "less":
				delete(side, name)
			}
		}
		running := record("a", 0, runtime.Running)
		running.Resources = known.Draw(t, "reported")
		given := known.Draw(t, "given")
		before := *allocated.DeepCopy()
		g := &generator{in: &Input{Actuated: map[string]runtime.Resources{"a": given}}}
		was := &v1.ContainerStatus{State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}, Resources: &old}
		got := g.resources(&v1.Container{Name: "a", Resources: allocated}, was, running, true, true)
		if len(allocated.Requests)+len(allocated.Limits) == 0 {
			if got != nil {
				t.Fatalf("%+v", got)
			}
			return
		}
		have := running.Resources
		want := v1.ResourceRequirements{
			Requests: shownAmounts(allocated.Requests, old.Requests, [2]int64{have.MilliCPURequest, have.MemoryRequest}, [2]int64{given.MilliCPURequest, given.MemoryRequest}),
			Limits:   shownAmounts(allocated.Limits, old.Limits, [2]int64{have.MilliCPULimit, have.MemoryLimit}, [2]int64{given.MilliCPULimit, given.MemoryLimit}),
		}
		if !equality.Semantic.DeepEqual(*got, want) {
			t.Fatalf("%+v, want %+v", got, want)
		}
		if same := equality.Semantic.DeepEqual(want, old); same != (got == &old) {
			t.Fatalf("says what it said: %v, is what it was: %v", same, got == &old)
		}
		if !equality.Semantic.DeepEqual(allocated, before) {
			t.Fatal("the spec was changed")
		}
	})
}

// shownAmounts reads 6.6 resource by resource; reported and given are of CPU, in
// thousandths, and memory.
func shownAmounts(allocated, old v1.ResourceList, reported, given [2]int64) v1.ResourceList {
	out := allocated.DeepCopy()
	for i, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		if _, ok := out[name]; !ok {
			continue
		}
		amount := reported[i]
		if amount == 0 {
			amount = given[i]
		}
		was, had := old[name]
		switch {
		case amount != 0 && name == v1.ResourceCPU:
			out[name] = *resource.NewMilliQuantity(amount, resource.DecimalSI)
		case amount != 0:
			out[name] = *resource.NewQuantity(amount, resource.DecimalSI)
		case had:
			out[name] = was
		}
	}
	return out
}
