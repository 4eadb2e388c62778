package recovery

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/status/checkpoint"
)

// TestAdmittedResourcesAreKept: spec/runtime.md 21.1. The first change of what an admitted pod asks for keeps what it was
// admitted with, unless its allocation is on record by then.
func TestAdmittedResourcesAreKept(t *testing.T) {
	sized := func(cpu string) *v1.Pod {
		p := &v1.Pod{Spec: v1.PodSpec{InitContainers: []v1.Container{{Name: "init"}}, Containers: []v1.Container{{Name: "main"}}}}
		if cpu != "" {
			p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
		}
		return p
	}
	for name, test := range map[string]struct {
		record checkpoint.Record
		to     *v1.Pod
		want   bool
	}{
		"admitted":             {checkpoint.Record{Pod: sized("1"), Admission: &checkpoint.Admission{}}, sized("2"), true},
		"the same":             {checkpoint.Record{Pod: sized("1"), Admission: &checkpoint.Admission{}}, sized("1000m"), false},
		"refused":              {checkpoint.Record{Pod: sized("1"), Admission: &checkpoint.Admission{Refused: true}}, sized("2"), false},
		"unjudged":             {checkpoint.Record{Pod: sized("1")}, sized("2"), false},
		"started":              {checkpoint.Record{Pod: sized("1"), Admission: &checkpoint.Admission{}, StartedAt: time.Unix(1, 0)}, sized("2"), false},
		"started with nothing": {checkpoint.Record{Pod: sized(""), Admission: &checkpoint.Admission{}, StartedAt: time.Unix(1, 0)}, sized("2"), true},
	} {
		t.Run(name, func(t *testing.T) {
			r, shared := test.record, test.record.Admission
			keepAdmitted(&r, test.to)
			if got := r.Admission != nil && r.Admission.Resources != nil; got != test.want || shared != nil && shared.Resources != nil {
				t.Fatalf("%+v", r.Admission)
			}
			if !test.want {
				return
			}
			first := r.Admission
			r.Pod = test.to
			if keepAdmitted(&r, sized("3")); r.Admission != first {
				t.Error("the second change replaced it")
			}
		})
	}
}
