package events_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/kube/events"
)

// The events of an engine go to the API server of its node.
func Example() {
	client := fake.NewClientset() // kubernetes.NewForConfig in an agent
	recorder, err := events.New(events.Options{Client: client, Node: "edge-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	config := podwright.Config{Observe: podwright.Observe{Events: recorder}}

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- recorder.Run(ctx) }()
	config.Observe.Events.Eventf(&v1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web"}, v1.EventTypeNormal, "Started", "Started container %s", "main")
	cancel()
	fmt.Println("ended:", <-ended)

	list, err := client.CoreV1().Events("shop").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range list.Items {
		e := &list.Items[i]
		fmt.Println(e.InvolvedObject.Name, e.Reason, e.Message, e.Source.Host)
	}
	// Output:
	// ended: <nil>
	// web Started Started container main edge-1
}
