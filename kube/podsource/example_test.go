package podsource_test

import (
	"context"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/kube/podsource"
	enginefake "github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
)

// An engine on a fake runtime runs what an API server, here a fake one too, has bound to its
// node.
func Example() {
	dir, err := os.MkdirTemp("", "node")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	api := fake.NewClientset(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "1", ResourceVersion: "10"},
		Spec:       v1.PodSpec{NodeName: "edge-1", Containers: []v1.Container{{Name: "web", Image: "example.com/web:1"}}},
	})
	pods, err := podsource.New(podsource.Options{NodeName: "edge-1", Client: api, RevisionFile: dir + "/revision"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	rt := enginefake.New(enginefake.Options{})
	engine, err := podwright.New(podwright.Config{
		Runtime: rt, Images: rt, RootDir: dir + "/root", Node: podwright.Node{Name: "edge-1"}, Sources: []syncloop.Source{pods},
		Observe: podwright.Observe{Sinks: []status.StatusSink{status.SinkFunc(func(_ context.Context, u status.Update) (status.StoreResult, error) {
			if u.Status.Phase == v1.PodRunning && ctx.Err() == nil {
				fmt.Println(pods.Lookup(u.UID).Name, u.Status.Phase)
				cancel()
			}
			return status.Stored, nil
		})}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := engine.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: web Running
}
