package status

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/runtime"
)

// tenContainers is a pod with ten running containers, each with resources and a
// mount, and its view.
func tenContainers() (*v1.Pod, *runtime.PodStatus) {
	pod := newPod()
	var records []*runtime.ContainerStatus
	for i := range 10 {
		name := fmt.Sprintf("c%d", i)
		apps(name)(pod)
		c := &pod.Spec.Containers[i]
		c.Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m"), v1.ResourceMemory: resource.MustParse("64Mi")}
		c.Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi")}
		c.VolumeMounts = []v1.VolumeMount{{Name: "token", MountPath: "/var/run/token", ReadOnly: true}}
		r := record(name, 1, runtime.Running)
		r.ID.ID = fmt.Sprintf("%064d", i)
		records = append(records, r)
	}
	for i := range 10 {
		records = append(records, exited(fmt.Sprintf("c%d", i), 0, 1))
	}
	return pod, view(records...)
}

// BenchmarkGenerate: ten containers, nothing changed. Goal: 5 µs and 10
// allocations.
func BenchmarkGenerate(b *testing.B) {
	pod, runtimeStatus := tenContainers()
	in := Input{Pod: pod, Runtime: runtimeStatus, SandboxReady: true, NodeIPs: []string{"192.168.0.1"}, Now: t1}
	old := Generate(in)
	in.Old = old.DeepCopy() // as the manager keeps it
	b.ReportAllocs()
	for b.Loop() {
		Generate(in)
	}
}

// BenchmarkSetPodStatusUnchanged: ten containers. Goal: no emission, 2 µs.
func BenchmarkSetPodStatusUnchanged(b *testing.B) {
	pod, runtimeStatus := tenContainers()
	m := NewManager(Options{})
	status := Generate(Input{Pod: pod, Runtime: runtimeStatus, SandboxReady: true, NodeIPs: []string{"192.168.0.1"}, Now: t1})
	if err := m.SetPodStatus(pod, status); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := m.SetPodStatus(pod, status); err != nil {
			b.Fatal(err)
		}
	}
	if list, _ := m.watch(); list[0].Version != 1 {
		b.Fatalf("version %d", list[0].Version)
	}
}
