package guide_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

// An explanation says what a pod waits for.
func Example_explain() {
	root, err := os.MkdirTemp("", "explain-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)
	rt := fake.New(fake.Options{})
	rt.Inject(fake.Fault{Match: fake.Match{Method: fake.PullImage}, Effect: fake.Effect{Hang: true}}) // a registry that does not answer
	pods := source.NewChannel(source.ChannelOptions{NodeName: "edge-1"})
	engine, err := podwright.New(podwright.Config{
		Runtime: rt, Images: rt, Sources: []syncloop.Source{pods}, RootDir: root, Node: podwright.Node{Name: "edge-1"},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- engine.Run(ctx) }()
	if err := pods.Set(ctx, []*v1.Pod{newPod("web")}); err != nil {
		log.Fatal(err)
	}

	e, known := engine.Explain("uid-web")
	for tick := time.Tick(time.Millisecond); len(e.Containers) == 0 || e.Containers[0].Pull == nil; <-tick {
		e, known = engine.Explain("uid-web")
	}
	fmt.Println(known, e.Namespace, e.Name, e.Phase)
	for _, c := range e.Containers {
		fmt.Println(c.Name, c.State+":", c.Reason)
		fmt.Println("it waits for image", c.Pull.Image, "- with it wait", c.Pull.Waiters)
	}
	fmt.Println("the worker is in", e.Worker.State)
	fmt.Println("problems:", len(engine.Problems()), "- healthy:", engine.Healthy() == nil)
	stop()
	fmt.Println("ended:", <-ended)
	// Output:
	// true default web Pending
	// main waiting: ContainerCreating
	// it waits for image nginx:1.29 - with it wait 1
	// the worker is in setup
	// problems: 0 - healthy: true
	// ended: <nil>
}
