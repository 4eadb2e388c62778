package fake_test

import (
	"context"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/runtime/fake"
)

// A container that works for a minute and fails, seen before and after.
func Example() {
	ctx := context.Background()
	clock := testclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC))
	f := fake.New(fake.Options{
		Clock:  clock,
		Images: []fake.Image{{Ref: "example.com/worker:v1"}},
		Script: func(l fake.Launch) fake.Script {
			return fake.Script{Exit: &fake.Exit{After: time.Minute, Code: 3}}
		},
	})

	pod := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "job", Namespace: "default", Uid: "1"}}
	sandbox, err := f.RunPodSandbox(ctx, pod, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	id, err := f.CreateContainer(ctx, sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "worker"},
		Image:    &runtimeapi.ImageSpec{Image: "example.com/worker:v1"},
	}, pod)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := f.StartContainer(ctx, id); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		response, err := f.ContainerStatus(ctx, id, false)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s code=%d reason=%q\n", response.Status.State, response.Status.ExitCode, response.Status.Reason)
		clock.Step(time.Hour)
	}
	fmt.Println("worked until", func() string {
		response, _ := f.ContainerStatus(ctx, id, false)
		return time.Unix(0, response.GetStatus().GetFinishedAt()).UTC().Format(time.TimeOnly)
	}())
	// Output:
	// CONTAINER_RUNNING code=0 reason=""
	// CONTAINER_EXITED code=3 reason="Error"
	// worked until 03:05:00
}

// The second stop of a container hangs until its caller gives up; the first
// sandbox is made although its caller was told otherwise.
func ExampleRuntime_Inject() {
	ctx := context.Background()
	f := fake.New(fake.Options{})
	remove := f.Inject(
		fake.Fault{Match: fake.Match{Method: fake.StopContainer}, From: 2, Times: 1, Effect: fake.Effect{Hang: true}},
		fake.Fault{Match: fake.Match{Method: fake.RunPodSandbox}, Times: 1, Effect: fake.Effect{Err: fmt.Errorf("lost"), Done: true}},
	)
	defer remove()

	pod := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "job", Namespace: "default", Uid: "1"}}
	_, err := f.RunPodSandbox(ctx, pod, "")
	fmt.Println(err)
	_, err = f.RunPodSandbox(ctx, pod, "")
	fmt.Println(err)
	// Output:
	// fake runtime: RunPodSandbox: lost
	// fake runtime: RunPodSandbox: name "job_default_1_0" is reserved for "sandbox-1": already exists
}
