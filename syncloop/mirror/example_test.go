package mirror_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/syncloop/mirror"
)

// The mirror pod of a static pod carries its hash and belongs to the node.
func ExampleOf() {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-uid"}}
	static := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "web-n1", Namespace: "default", UID: "3f2a",
		Annotations: map[string]string{"kubernetes.io/config.hash": "3f2a"},
	}}
	pod, err := mirror.Of(static, node)
	if err != nil {
		fmt.Println(err)
		return
	}
	api := &mirror.FakeClient{}
	fmt.Println(api.Create(context.Background(), pod))
	there, _ := api.Pods()
	fmt.Println(there[0].Name, there[0].Annotations["kubernetes.io/config.mirror"], there[0].OwnerReferences[0].Name)
	// Output:
	// <nil>
	// web-n1 3f2a n1
}
