package pods_test

import (
	"context"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// One pod's way up and down, on a fake runtime.
func Example() {
	dir, err := os.MkdirTemp("", "pods")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	rt := fake.New(fake.Options{})
	manager, err := pods.New(rt, rt, pods.Options{RootDir: dir, LogDir: dir + "/logs", OwnerID: "example"})
	if err != nil {
		fmt.Println(err)
		return
	}
	view := cri.NewView(rt, cri.ViewOptions{OwnerID: "example"})
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "42"},
		Spec: v1.PodSpec{
			DNSPolicy:  v1.DNSNone,
			Containers: []v1.Container{{Name: "app", Image: "example.com/web:1"}},
		},
	}

	ctx := context.Background()
	for {
		// Level-triggered: look, do what is next, look again.
		status, err := view.Read(ctx, pod.UID)
		if err != nil {
			fmt.Println(err)
			return
		}
		result := manager.SyncPod(ctx, pod, status)
		for _, action := range result.Actions {
			fmt.Println(action.Step, action.Target)
		}
		if !result.Acted {
			break
		}
	}
	fmt.Println("stopped:", manager.KillPod(ctx, pod, nil, nil))
	fmt.Println("removed:", manager.RemovePod(ctx, pod.UID), manager.RemovePodDir(ctx, pod.UID))
	// Output:
	// CreateSandbox web
	// StartContainer app
	// stopped: <nil>
	// removed: <nil> <nil>
}
