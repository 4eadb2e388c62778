package kube_test

import (
	"fmt"
	"os"

	"k8s.io/client-go/rest"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/kube"
	"github.com/podwright/podwright/kube/node"
	"github.com/podwright/podwright/runtime/fake"
)

// An agent fills a configuration for its runtime, has the rest filled in, and makes the
// engine. A program then calls agent.Run(ctx, engine); see examples/kubenode.
func Example() {
	root, err := os.MkdirTemp("", "kube-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(root) }()
	runtime := fake.New(fake.Options{})
	config := podwright.Config{Runtime: runtime, Images: runtime, RootDir: root, Node: podwright.Node{Name: "edge-1"}}
	agent, err := kube.New(kube.Options{
		Config: &rest.Config{Host: "https://api.example"}, // in a program: from a kubeconfig
		Node:   node.Options{Labels: map[string]string{"site": "north"}},
	}, &config)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := podwright.New(config); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("source:", config.Sources[0].Name(), "sinks:", len(config.Observe.Sinks), "mirrors:", config.Mirrors.Client != nil)
	select {
	case <-agent.Registered():
	default:
		fmt.Println("not registered before Run")
	}
	// Output:
	// source: api sinks: 1 mirrors: true
	// not registered before Run
}
