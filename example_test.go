package podwright_test

import (
	"context"
	"fmt"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

// An engine takes pods from the program itself, runs them, and reports each status
// to a function.
func Example() {
	root, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)

	rt := fake.New(fake.Options{}) // process.New or cri.Dial for real containers
	pods := source.NewChannel(source.ChannelOptions{NodeName: "edge-1"})
	running := make(chan struct{})
	engine, err := podwright.New(podwright.Config{
		Runtime: rt, Images: rt, Sources: []syncloop.Source{pods}, RootDir: root, Node: podwright.Node{Name: "edge-1"},
		Observe: podwright.Observe{Sinks: []status.StatusSink{status.SinkFunc(func(_ context.Context, u status.Update) (status.StoreResult, error) {
			if u.Version == 1 || u.Status.Phase == v1.PodRunning {
				fmt.Println(u.Name, u.Status.Phase)
			}
			if u.Status.Phase == v1.PodRunning {
				close(running)
			}
			return status.Stored, nil
		})}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- engine.Run(ctx) }()

	err = pods.Set(ctx, []*v1.Pod{{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "web", Image: "nginx:1.29"}}},
	}})
	if err != nil {
		fmt.Println(err)
	}
	<-running
	cancel()
	fmt.Println("ended:", <-ended)
	// Output:
	// web Pending
	// web Running
	// ended: <nil>
}

// An operator has a pod leave its node.
func ExampleEngine_EvictPod() {
	root, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	rt, pods := fake.New(fake.Options{}), source.NewChannel(source.ChannelOptions{NodeName: "edge-1"})
	running := make(chan struct{}, 1)
	engine, err := podwright.New(podwright.Config{
		Runtime: rt, Images: rt, Sources: []syncloop.Source{pods}, RootDir: root, Node: podwright.Node{Name: "edge-1"},
		Observe: podwright.Observe{Sinks: []status.StatusSink{status.SinkFunc(func(_ context.Context, u status.Update) (status.StoreResult, error) {
			if u.Status.Phase == v1.PodRunning {
				running <- struct{}{}
			}
			return status.Stored, nil
		})}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- engine.Run(ctx) }()
	web := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "web-1"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "web", Image: "nginx:1.29"}}},
	}
	if err := pods.Set(ctx, []*v1.Pod{web}); err != nil {
		fmt.Println(err)
	}
	<-running
	err = engine.EvictPod(ctx, web.UID, podwright.EvictOptions{Grace: 5 * time.Second, Reason: "Repair", Message: "The fan is replaced."})
	evicted, _ := engine.Pod(web.UID)
	fmt.Println(evicted.Status.Phase, evicted.Status.Reason, err)
	cancel()
	<-ended
	// Output: Failed Repair <nil>
}
