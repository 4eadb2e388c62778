package cri_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// A wrong endpoint is told apart from a runtime that is down.
func ExampleDial() {
	ctx := context.Background()
	for _, endpoint := range []string{"tcp://127.0.0.1:2375", "/no/such/socket"} {
		client, err := cri.Dial(ctx, endpoint, cri.Options{ConnectTimeout: 10 * time.Millisecond})
		if err != nil {
			fmt.Println(err)
			fmt.Println("wrong endpoint:", errors.Is(err, runtime.ErrInvalid))
			continue
		}
		defer func() { _ = client.Close() }()
	}
	// Output:
	// container runtime at "tcp://127.0.0.1:2375": invalid request: scheme "tcp" is not supported; use a unix socket, such as unix:///run/containerd/containerd.sock
	// wrong endpoint: true
	// container runtime at "/no/such/socket": dial unix /no/such/socket: connect: no such file or directory; is the runtime running, and is this its socket?
	// wrong endpoint: false
}

// A view shows the pods of a node; what others run on it stays invisible.
func ExampleView_ListPods() {
	node := &store{
		sandboxes: []*runtimeapi.PodSandbox{
			sandbox("7d1f", "s1", 0, 1, ready),
			{Id: "stranger", Metadata: &runtimeapi.PodSandboxMetadata{Name: "stranger"}},
		},
		containers: []*runtimeapi.Container{container("7d1f", "c1", "web", 2)},
	}
	pods, err := cri.NewView(node, cri.ViewOptions{}).ListPods(context.Background())
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
	fmt.Println(cri.Class(err))
	fmt.Println(cri.IsNotFound(err), errors.Is(cri.Class(err), runtime.ErrNotFound))
	// Output:
	// not found
	// true true
}
