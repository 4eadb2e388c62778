package recovery

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/podwright/podwright/status/checkpoint"
)

// A pod is allocated what it was admitted with (spec/runtime.md 21.1), even if its source changes it before its first
// step and the agent is replaced in between.

// AdmittedAs returns the pod on record with the resources that it was admitted with, or nil as [Journal.Owner] does. It
// also returns nil if wanted, the pod as its source wants it, begins another life than the one on record: that is
// allocated what it asks for.
func (j *Journal) AdmittedAs(wanted *v1.Pod) *v1.Pod {
	pod, _ := j.Owner(wanted.UID)
	r := j.keeper.Get(wanted.UID)
	if pod == nil || r == nil {
		return nil
	}
	if next := continuationOf(wanted, r, j.clock.Now()); next.newLife || next.again {
		return nil
	}
	if r.Admission == nil || r.Admission.Resources == nil || allocated(r, r.Admission.Resources) {
		return pod
	}
	was := map[string]v1.ResourceRequirements{}
	for _, list := range listsOf(r.Admission.Resources) {
		for i := range list {
			was[list[i].Name] = list[i].Resources
		}
	}
	pod = pod.DeepCopy()
	pod.Spec.Resources = r.Admission.Resources.Resources
	for _, list := range listsOf(&pod.Spec) {
		for i := range list {
			if resources, ok := was[list[i].Name]; ok {
				list[i].Resources = resources
			}
		}
	}
	return pod
}

// keepAdmitted keeps what a pod was admitted with when it first asks for something else.
func keepAdmitted(r *checkpoint.Record, pod *v1.Pod) {
	if r.Pod == nil || r.Pod == pod || r.Admission == nil || r.Admission.Refused || r.Admission.Resources != nil {
		return
	}
	was := resourcesOf(&r.Pod.Spec)
	if allocated(r, was) || equality.Semantic.DeepEqual(was, resourcesOf(&pod.Spec)) {
		return
	}
	a := *r.Admission // shared with other copies of the record
	a.Resources = was
	r.Admission = &a
}

// allocated reports whether the pod has a record of its allocation: one that asks for no CPU and memory has none, others have it
// before their first container starts.
func allocated(r *checkpoint.Record, resources *v1.PodSpec) bool {
	if r.StartedAt.IsZero() {
		return false
	}
	asks := func(q v1.ResourceRequirements) bool {
		return slices.ContainsFunc([]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory}, func(name v1.ResourceName) bool {
			_, requests := q.Requests[name]
			_, limits := q.Limits[name]
			return requests || limits
		})
	}
	some := resources.Resources != nil && asks(*resources.Resources)
	for _, list := range listsOf(resources) {
		some = some || slices.ContainsFunc(list, func(c v1.Container) bool { return asks(c.Resources) })
	}
	return some
}

// resourcesOf returns a spec that has only the resources of another one.
func resourcesOf(spec *v1.PodSpec) *v1.PodSpec {
	out := &v1.PodSpec{Resources: spec.Resources}
	for i, list := range listsOf(spec) {
		var only []v1.Container
		for k := range list {
			only = append(only, v1.Container{Name: list[k].Name, Resources: list[k].Resources})
		}
		if i == 0 {
			out.InitContainers = only
		} else {
			out.Containers = only
		}
	}
	return out
}

func listsOf(spec *v1.PodSpec) [2][]v1.Container {
	return [2][]v1.Container{spec.InitContainers, spec.Containers}
}
