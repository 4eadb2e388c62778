package node_test

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/podwright/podwright/kube/node"
)

// An agent gives the hooks to its engine, as Config.NodeHooks, and runs the registrar
// beside it. Here the first hook is called by hand.
func Example() {
	api := fake.NewClientset()
	registrar, err := node.New(node.Options{Name: "edge-1", Client: api, Labels: map[string]string{"site": "north"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	if err := registrar.Hooks().Register(ctx); err != nil {
		fmt.Println(err)
		return
	}
	<-registrar.Registered()
	made, _ := api.CoreV1().Nodes().Get(ctx, "edge-1", metav1.GetOptions{})
	fmt.Println(made.Name, made.Labels["site"], made.Status.NodeInfo.KubeletVersion)
	// Output: edge-1 north v1.37.2+podwright
}
