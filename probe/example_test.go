package probe_test

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/probe"
)

// shop shows one pod whose container runs.
type shop struct{ pod *v1.Pod }

func (s shop) View(types.UID) (probe.View, bool) {
	return probe.View{Pod: s.pod, Status: &v1.PodStatus{
		Phase: v1.PodRunning,
		ContainerStatuses: []v1.ContainerStatus{{
			Name: "web", ContainerID: "demo://1", Started: ptr.To(true),
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.Now()}},
		}},
	}}, true
}

// ExecSync is a runtime whose commands succeed.
func (s shop) ExecSync(_ context.Context, id string, cmd []string, _ time.Duration) (stdout, stderr []byte, err error) {
	fmt.Println("container", id, "runs", cmd)
	return nil, nil, nil
}

func Example() {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "default", UID: "1"}}
	pod.Spec.Containers = []v1.Container{{
		Name: "web",
		Env:  []v1.EnvVar{{Name: "PORT", Value: "8080"}},
		ReadinessProbe: &v1.Probe{ProbeHandler: v1.ProbeHandler{
			Exec: &v1.ExecAction{Command: []string{"check", "$(PORT)"}},
		}},
	}}
	heard := make(chan probe.Announcement, 3)
	manager, err := probe.New(probe.Options{
		Pods: shop{pod}, Runtime: shop{pod}, Rand: func() float64 { return 0 },
		OnResult: func(_ context.Context, a probe.Announcement) { heard <- a },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- manager.Run(ctx) }()
	manager.AddPod(pod)
	for a := range heard {
		if a.Result == probe.Success {
			fmt.Println(a.Kind, "of", a.ID, "is", a.Result)
			break
		}
	}
	cancel()
	fmt.Println("ended:", <-done)
	// Output:
	// container 1 runs [check 8080]
	// Readiness of demo://1 is Success
	// ended: <nil>
}
