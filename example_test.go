package podwright_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/cri"
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
	running := make(chan string, 1)
	engine, err := podwright.New(podwright.Config{
		Runtime: rt, Images: rt, Sources: []syncloop.Source{pods}, RootDir: root, Node: podwright.Node{Name: "edge-1"},
		Observe: podwright.Observe{Sinks: []status.StatusSink{status.SinkFunc(func(_ context.Context, u status.Update) (status.StoreResult, error) {
			if u.Status.Phase == v1.PodRunning { // a status before it may be overtaken
				select {
				case running <- u.Name:
				default:
				}
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
	fmt.Println(<-running, "is running")
	cancel()
	fmt.Println("ended:", <-ended)
	// Output:
	// web is running
	// ended: <nil>
}

// launch runs an engine with one pod and returns once the pod runs. stop ends the engine.
func launch(rt *fake.Runtime, pod *v1.Pod) (engine *podwright.Engine, stop func()) {
	root, err := os.MkdirTemp("", "example-")
	if err != nil {
		panic(err)
	}
	pods := source.NewChannel(source.ChannelOptions{NodeName: "edge-1"})
	engine, err = podwright.New(podwright.Config{
		Runtime: rt, Images: rt, Sources: []syncloop.Source{pods}, RootDir: root, Node: podwright.Node{Name: "edge-1"},
	})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- engine.Run(ctx) }()
	if err := pods.Set(ctx, []*v1.Pod{pod}); err != nil {
		panic(err)
	}
	for change := range engine.Watch(ctx) {
		if change.Status != nil && change.Status.Phase == v1.PodRunning {
			break
		}
	}
	return engine, func() {
		cancel()
		<-ended
		_ = os.RemoveAll(root)
	}
}

// web is a pod with one container.
func web() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "web-1"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "web", Image: "nginx:1.29"}}},
	}
}

// An operator evicts a pod from its node, and a program watches how it ends.
func ExampleEngine_EvictPod() {
	engine, stop := launch(fake.New(fake.Options{}), web())
	defer stop()
	ctx := context.Background()
	err := engine.EvictPod(ctx, "web-1", podwright.EvictOptions{Grace: 5 * time.Second, Reason: "Repair", Message: "The fan is replaced."})
	evicted, _ := engine.Pod("web-1")
	fmt.Println(evicted.Status.Phase, evicted.Status.Reason, err)
	// Output: Failed Repair <nil>
}

// An operator restarts a pod in place, because a file that it reads only once has changed.
func ExampleEngine_RestartPod() {
	engine, stop := launch(fake.New(fake.Options{}), web())
	defer stop()
	ctx := context.Background()
	err := engine.RestartPod(ctx, "web-1", podwright.RestartOptions{Message: "The certificate is new."})
	restarted, _ := engine.Pod("web-1")
	fmt.Println(restarted.Status.Phase, restarted.Status.ContainerStatuses[0].RestartCount, err)
	// Output: Running 1 <nil>
}

// A program follows every pod until it has seen enough.
func ExampleEngine_Watch() {
	engine, stop := launch(fake.New(fake.Options{}), web())
	defer stop()
	for change, err := range engine.Watch(context.Background()) {
		switch {
		case err != nil:
			fmt.Println("too slow; what was missed comes next:", err)
		case change.Forgotten:
			fmt.Println(change.Name, "is gone")
		default:
			fmt.Println(change.Name, change.Status.Phase)
		}
		break // a real agent would go on
	}
	// Output: web Running
}

// A runtime with a streaming server returns the URL at which it runs the command.
func ExampleEngine_Exec() {
	engine, stop := launch(fake.New(fake.Options{StreamURL: "http://127.0.0.1:1234"}), web())
	defer stop()
	url, err := engine.Exec(context.Background(), "web-1", "web", []string{"nginx", "-t"}, cri.Streams{Stdout: os.Stdout})
	fmt.Println(strings.HasPrefix(url, "http://127.0.0.1:1234/exec/"), err)
	// Output: true <nil>
}
