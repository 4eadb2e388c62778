package guide_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

// A first agent runs the manifests of a folder, and prints where the first pod runs.
func Example_firstAgent() {
	folder, err := os.MkdirTemp("", "agent-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	manifest := "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: main, image: 'nginx:1.29'}]}\n"
	if err := os.WriteFile(filepath.Join(folder, "web.yaml"), []byte(manifest), 0o600); err != nil {
		log.Fatal(err)
	}

	manifests, err := source.NewFile(folder, "edge-1", source.FileOptions{})
	if err != nil {
		log.Fatal(err)
	}
	rt := fake.New(fake.Options{}) // process.New or cri.Dial for real containers
	engine, err := podwright.New(podwright.Config{
		Runtime: rt, Images: rt, Sources: []syncloop.Source{manifests},
		RootDir: filepath.Join(folder, ".agent"), Node: podwright.Node{Name: "edge-1"},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- engine.Run(ctx) }()

	for change := range engine.Watch(ctx) {
		if change.Status != nil && change.Status.Phase == v1.PodRunning {
			fmt.Println(change.Name, "runs at", change.Status.PodIP)
			break
		}
	}
	stop() // the agent ends, the pod goes on
	fmt.Println("ended:", <-ended)
	running, err := rt.ListContainers(context.Background(), nil)
	fmt.Println("containers in the runtime:", len(running), err)
	// Output:
	// web-edge-1 runs at 10.88.0.1
	// ended: <nil>
	// containers in the runtime: 1 <nil>
}
