package fake_test

import (
	"fmt"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
)

// fill makes n pods of one container.
func fill(b *testing.B, f *fake.Runtime, n int) {
	b.Helper()
	for i := range n {
		pod := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{
			Name: "pod", Namespace: "ns", Uid: fmt.Sprint(i),
		}, Labels: map[string]string{runtime.LabelPodUID: fmt.Sprint(i), runtime.LabelPodName: "pod", runtime.LabelPodNamespace: "ns"}}
		s, err := f.RunPodSandbox(b.Context(), pod, "")
		if err != nil {
			b.Fatal(err)
		}
		config := containerConfig("app", 0)
		config.Labels = pod.Labels
		id, err := f.CreateContainer(b.Context(), s, config, pod)
		if err != nil {
			b.Fatal(err)
		}
		if err := f.StartContainer(b.Context(), id); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStart is the cost of one pod, so that simulations of large nodes
// measure the engine and not its fake: it must not grow with the pods.
func BenchmarkStart(b *testing.B) {
	for _, n := range []int{100, 10000} {
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			for b.Loop() {
				fill(b, fake.New(fake.Options{Images: []fake.Image{{Ref: image}}, MaxCalls: 1}), n)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/pod")
		})
	}
}

// BenchmarkListOfPod is the cost of listing the containers of one pod among many.
func BenchmarkListOfPod(b *testing.B) {
	for _, n := range []int{100, 10000} {
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			f := fake.New(fake.Options{Images: []fake.Image{{Ref: image}}, MaxCalls: 1})
			fill(b, f, n)
			filter := &runtimeapi.ContainerFilter{LabelSelector: map[string]string{runtime.LabelPodUID: "7"}}
			for b.Loop() {
				list, err := f.ListContainers(b.Context(), filter)
				if err != nil || len(list) != 1 {
					b.Fatalf("%v, %v", list, err)
				}
			}
		})
	}
}

// BenchmarkList is the cost of the two calls of a relist.
func BenchmarkList(b *testing.B) {
	f := fake.New(fake.Options{Images: []fake.Image{{Ref: image}}, MaxCalls: 1})
	fill(b, f, 1000)
	for b.Loop() {
		if _, err := f.ListContainers(b.Context(), nil); err != nil {
			b.Fatal(err)
		}
		if _, err := f.ListPodSandbox(b.Context(), nil); err != nil {
			b.Fatal(err)
		}
	}
}
