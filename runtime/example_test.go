package runtime_test

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
)

// A view shows the pods of a node; what others run on it stays invisible.
func ExampleView_ListPods() {
	node := &store{
		sandboxes: []*runtimeapi.PodSandbox{
			sandbox("7d1f", "s1", 0, 1, ready),
			{Id: "stranger", Metadata: &runtimeapi.PodSandboxMetadata{Name: "stranger"}},
		},
		containers: []*runtimeapi.Container{container("7d1f", "c1", "web", 2)},
	}
	pods, err := runtime.NewView(node, runtime.ViewOptions{}).ListPods(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, pod := range pods {
		fmt.Println(pod.Namespace, pod.Name, "running:", pod.Running())
		for _, c := range pod.Containers {
			fmt.Println(" ", c.Name, c.State, c.ID)
		}
	}
	// Output:
	// ns name-7d1f running: true
	//   web running test://c1
}

// Class understands the errors of any CRI client, wrapped or not.
func ExampleClass() {
	err := fmt.Errorf("stop container: %w", status.Error(codes.NotFound, "no container 4f2a"))
	fmt.Println(runtime.Class(err))
	fmt.Println(runtime.IsNotFound(err), errors.Is(runtime.Class(err), runtime.ErrNotFound))
	// Output:
	// not found
	// true true
}
