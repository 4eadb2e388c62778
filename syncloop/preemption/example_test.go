package preemption_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/syncloop/preemption"
)

// The node's DNS needs one of two CPUs that others have.
func ExampleSelect() {
	pod := func(name, cpu string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{Containers: []v1.Container{{
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}},
		}}}}
	}
	active := []preemption.Pod{
		{Pod: pod("database", "1"), Class: v1.PodQOSGuaranteed},
		{Pod: pod("batch-1", "300m"), Class: v1.PodQOSBurstable},
		{Pod: pod("batch-2", "700m"), Class: v1.PodQOSBurstable},
	}
	victims, err := preemption.Select(pod("dns", "500m"), active, preemption.Node{
		Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")},
	})
	for _, v := range victims {
		fmt.Println(v.Name)
	}
	fmt.Println(err)
	// Output:
	// batch-2
	// <nil>
}
