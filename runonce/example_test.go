package runonce_test

import (
	"context"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runonce"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

// A program runs a job and ends with it.
func Example() {
	root, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)

	rt := fake.New(fake.Options{Script: func(fake.Launch) fake.Script { return fake.Script{Exit: &fake.Exit{}} }})
	pods := source.NewChannel(source.ChannelOptions{NodeName: "edge-1"})
	runner, err := runonce.New(runonce.Options{Drain: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	engine, err := podwright.New(podwright.Config{
		Runtime: rt, Images: rt, Sources: []syncloop.Source{pods}, RootDir: root, Node: podwright.Node{Name: "edge-1"},
		Observe: podwright.Observe{Sinks: []status.StatusSink{runner}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	given := make(chan error, 1)
	go func() {
		given <- pods.Set(ctx, []*v1.Pod{{
			ObjectMeta: metav1.ObjectMeta{Name: "migrate", Namespace: "default"},
			Spec:       v1.PodSpec{RestartPolicy: v1.RestartPolicyNever, Containers: []v1.Container{{Name: "main", Image: "migrate:3"}}},
		}})
	}()
	report, err := runner.Run(ctx, engine)
	fmt.Println(err, report.Err(), <-given)
	for _, p := range report.Pods {
		fmt.Println(p.Name, p.Outcome)
	}
	// Output:
	// <nil> <nil> <nil>
	// migrate Succeeded
}
