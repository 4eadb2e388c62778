package memoryapi_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podwright/podwright/kube/internal/memoryapi"
)

// An operator makes a pod, and its node shows that it runs.
func Example() {
	ctx := context.Background()
	server := memoryapi.New(nil)
	operator := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://api", Transport: server.Transport("")}).CoreV1().Pods("default")
	node := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://api", Transport: server.Transport("edge-1")}).CoreV1().Pods("default")
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "web-1"}, Spec: v1.PodSpec{NodeName: "edge-1"}}
	if _, err := operator.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		fmt.Println(err)
	}
	if _, err := node.Patch(ctx, "web", "application/strategic-merge-patch+json", []byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status"); err != nil {
		fmt.Println(err)
	}
	for _, change := range server.History() {
		p := change.Object.(*v1.Pod)
		fmt.Printf("%d %s %s %q by %q\n", change.Revision, change.Type, p.Name, p.Status.Phase, change.User)
	}
	// Output:
	// 2 ADDED web "" by ""
	// 3 MODIFIED web "Running" by "edge-1"
}
