package podsource_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/podwright/podwright/kube/podsource"
)

// An agent gives the source to its engine, in Config.Sources. Here the sets that it
// delivers are printed.
func Example() {
	api := fake.NewClientset(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "1"},
		Spec:       v1.PodSpec{NodeName: "edge-1"},
	})
	source, err := podsource.New(podsource.Options{NodeName: "edge-1", Client: api})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	_ = source.Run(ctx, func(_ context.Context, pods []*v1.Pod) error {
		for _, pod := range pods {
			fmt.Println(source.Name(), pod.Namespace, pod.Name)
		}
		cancel()
		return nil
	})
	// Output: api default web
}
