package stats_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/kube/stats"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// engine has one pod; a *podwright.Engine has those it runs.
type engine struct{}

func (engine) Pods() []v1.Pod {
	return []v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "1"}}}
}

func (engine) LocalStorage(types.UID) (pods.LocalStorage, map[string]pods.MountedVolume) {
	return pods.LocalStorage{}, nil
}

// A source measures when it is asked. In an agent its pages are served by package server.
func Example() {
	ctx := context.Background()
	rt := fake.New(fake.Options{})
	sandbox := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "shop", Uid: "1"}}
	labels := map[string]string{runtime.LabelPodUID: "1", runtime.LabelPodName: "web", runtime.LabelPodNamespace: "shop", runtime.LabelContainerName: "app"}
	container := &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: "web:1"}, Labels: labels}
	if _, err := rt.PullImage(ctx, container.GetImage(), nil, nil); err != nil {
		fmt.Println(err)
		return
	}
	id, err := rt.RunPodSandbox(ctx, sandbox, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	app, err := rt.CreateContainer(ctx, id, container, sandbox)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := rt.StartContainer(ctx, app); err != nil {
		fmt.Println(err)
		return
	}
	rt.SetMemoryUsage("1", "app", 64<<20)

	source, err := stats.New(stats.Options{Node: "edge-1", Engine: engine{}, Runtime: rt})
	if err != nil {
		fmt.Println(err)
		return
	}
	summary, err := source.Summary(ctx, true)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, pod := range summary.Pods {
		for _, c := range pod.Containers {
			fmt.Println(pod.PodRef.Namespace, pod.PodRef.Name, c.Name, *c.Memory.WorkingSetBytes>>20, "MiB")
		}
	}
	// Output: shop web app 64 MiB
}
