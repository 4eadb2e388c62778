package statussink_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/kube/statussink"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop/mirror"
)

// A node's agent sends statuses and mirror pods to its API server.
func Example() {
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "https://api.example.com"})
	if err != nil {
		fmt.Println(err)
		return
	}
	watched := func(types.UID) *v1.Pod { return nil } // from the source that watches pods
	node := func() *v1.Node { return nil }            // from the registration of the node

	sink, err := statussink.New(statussink.Options{Client: client, Lookup: watched})
	if err != nil {
		fmt.Println(err)
		return
	}
	mirrors, err := statussink.NewMirrors(client)
	if err != nil {
		fmt.Println(err)
		return
	}
	config := podwright.Config{
		Observe: podwright.Observe{Sinks: []status.StatusSink{sink}},
		Mirrors: mirror.Options{Client: mirrors, Node: node},
	}
	fmt.Println(sink.Name(), len(config.Observe.Sinks))
	// Output: api 1
}
