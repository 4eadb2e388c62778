package admission_test

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/syncloop/admission"
)

// A node with two CPUs takes two of three pods that want one each.
func Example() {
	gate, err := admission.NewGate(admission.Options{
		Handlers: []admission.Handler{
			admission.Resources(func() v1.ResourceList {
				return v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")}
			}),
			admission.HostPorts(),
		},
		Rejected: func(pod *v1.Pod, v admission.Verdict) { fmt.Println(pod.Name, v.Reason, "-", v.Message) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var running []*v1.Pod
	for _, name := range []string{"a", "b", "c"} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: v1.PodSpec{Containers: []v1.Container{{
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}},
		}}}}
		if admitted, _ := gate.Admit(context.Background(), pod, slices.Values(running)); admitted {
			running = append(running, pod)
		}
	}
	fmt.Println("running:", len(running))
	// Output:
	// c OutOfcpu - Node didn't have enough resource: cpu, requested: 1, used: 2, capacity: 2
	// running: 2
}
