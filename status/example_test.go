package status_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/status"
)

func examplePod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "6f1c"},
		Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyNever,
			Containers:    []v1.Container{{Name: "server", Image: "host"}},
		},
	}
}

// seen is what a runtime shows of the pod.
func seen(state runtime.State, exitCode int32) *runtime.PodStatus {
	return &runtime.PodStatus{
		Sandboxes:  []*runtime.SandboxStatus{{ID: "s1", State: runtime.Running}},
		Containers: []*runtime.ContainerStatus{{ID: runtime.ContainerID{Runtime: "process", ID: "c1"}, Name: "server", SandboxID: "s1", State: state, ExitCode: exitCode}},
	}
}

// The status of a pod follows from its spec and what the runtime shows.
func ExampleGenerate() {
	pod := examplePod()
	for _, view := range []*runtime.PodStatus{nil, seen(runtime.Running, 0), seen(runtime.Exited, 3)} {
		s := status.Generate(status.Input{Pod: pod, Runtime: view})
		fmt.Println(s.Phase, s.ContainerStatuses[0].Ready)
	}
	// Output:
	// Pending false
	// Running true
	// Failed false
}

// A manager hands each change to its sinks once; a status that says nothing new
// goes nowhere.
func ExampleManager() {
	noon := clocktesting.NewFakeClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	m := status.NewManager(status.Options{
		Sinks: []status.StatusSink{status.NewJSONLinesSink(os.Stdout, noon)},
		Clock: noon,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := m.Run(ctx); err != nil {
			fmt.Println(err)
		}
	})

	pod := examplePod()
	for _, phase := range []v1.PodPhase{v1.PodPending, v1.PodPending, v1.PodRunning} {
		if err := m.SetPodStatus(pod, v1.PodStatus{Phase: phase}); err != nil {
			fmt.Println(err)
		}
		if err := m.Flush(ctx); err != nil {
			fmt.Println(err)
		}
	}
	cancel()
	running.Wait()
	// Output:
	// {"time":"2026-11-20T12:00:00Z","uid":"6f1c","namespace":"shop","name":"web","version":1,"status":{"phase":"Pending","startTime":"2026-11-20T12:00:00Z"}}
	// {"time":"2026-11-20T12:00:00Z","uid":"6f1c","namespace":"shop","name":"web","version":2,"status":{"phase":"Running","startTime":"2026-11-20T12:00:00Z"}}
}

// A sink is one function.
func ExampleSinkFunc() {
	sink := status.SinkFunc(func(_ context.Context, u status.Update) (status.StoreResult, error) {
		fmt.Printf("%s is %s\n", u.Name, u.Status.Phase)
		return status.Stored, nil
	})
	m := status.NewManager(status.Options{Sinks: []status.StatusSink{sink}})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = m.Run(ctx) })
	_ = m.SetPodStatus(examplePod(), v1.PodStatus{Phase: v1.PodRunning})
	_ = m.Flush(ctx)
	cancel()
	running.Wait()
	// Output: web is Running
}

// A table of pods that is always right in the end, however slow its reader is.
func ExampleManager_Changes() {
	m := status.NewManager(status.Options{})
	pod := examplePod()
	_ = m.SetPodStatus(pod, v1.PodStatus{Phase: v1.PodRunning})
	m.Forget(pod.UID)
	_ = m.SetPodStatus(pod, v1.PodStatus{Phase: v1.PodPending})

	table := map[string]v1.PodPhase{}
	for change, err := range m.Changes(context.Background()) {
		switch {
		case err != nil:
			fmt.Println("slow:", err)
			continue
		case change.Forgotten:
			delete(table, change.Name)
		default:
			table[change.Name] = change.Status.Phase
		}
		break // an agent goes on
	}
	fmt.Println(table)
	// Output: map[web:Pending]
}
