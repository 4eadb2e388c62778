package podsync_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/podsync"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/status"
)

// agent is a small node agent without an Engine.
type agent struct {
	clock   *clocktesting.FakeClock
	pleg    *pleg.Generator
	status  *status.Manager
	sink    *status.ChannelSink
	calls   *podsync.Calls
	syncer  *podsync.Syncer
	workers *podworkers.Workers
}

// newAgent connects the parts.
func newAgent(rt *fake.Runtime, clock clock.WithTickerAndDelayedExecution, rootDir string) *agent {
	a := &agent{sink: status.NewChannelSink(0)}
	sequence := &runtime.Sequence{}
	a.pleg = must(pleg.New(rt, pleg.Options{Clock: clock, Sequence: sequence}))
	a.status = status.NewManager(status.Options{Sinks: []status.StatusSink{a.sink}, Clock: clock})
	a.calls = podsync.NewCalls(rt, podsync.CallOptions{Cache: a.pleg, Clock: clock})
	manager := must(pods.New(a.calls, rt, pods.Options{
		RootDir: rootDir, LogDir: rootDir + "/logs", Reader: a.calls, Sequence: sequence, Clock: clock,
		SandboxReady: func(_ context.Context, uid types.UID, _ []string) { a.status.SetSandboxReady(uid) },
	}))
	a.syncer = podsync.New(manager, a.pleg, a.status, podsync.Options{
		Calls: a.calls, Content: manager, Clock: clock,
		Removable: func(uid types.UID) bool { return a.workers.ShouldPodContentBeRemoved(uid) },
	})
	a.workers = podworkers.New(a.syncer, podworkers.Options{Views: a.pleg, Clock: clock})
	return a
}

func must[T any](made T, err error) T {
	if err != nil {
		panic(err)
	}
	return made
}

// run runs the parts until ctx ends, and the calls until the workers have ended. It syncs the
// desired pod whenever the runtime shows something new.
func (a *agent) run(ctx context.Context, desired *v1.Pod) error {
	changes := a.pleg.Subscribe()
	defer changes.Close()
	var parts, calls sync.WaitGroup
	var problems [4]error
	needed, over := context.WithCancel(context.WithoutCancel(ctx))
	defer func() { over(); calls.Wait() }()
	calls.Go(func() { _ = a.calls.Run(needed) })
	for i, part := range []func(context.Context) error{a.pleg.Run, a.status.Run, a.syncer.Run, a.workers.Run} {
		parts.Go(func() { problems[i] = part(ctx) })
	}
	for {
		select {
		case <-ctx.Done():
			parts.Wait()
			return errors.Join(problems[:]...)
		case <-changes.Ready():
			if len(changes.Take()) > 0 {
				a.workers.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Sync, Pod: desired})
			}
		}
	}
}

// await lets virtual time pass until a status meets the condition, and returns it.
func (a *agent) await(until func(u status.Update) bool) status.Update {
	tick := time.NewTicker(100 * time.Microsecond)
	defer tick.Stop()
	for {
		select {
		case u := <-a.sink.Updates():
			if until(u) {
				return u
			}
		case <-tick.C:
			a.clock.Step(100 * time.Millisecond)
		}
	}
}

// The workers, the syncer, the runtime's reconciler, pleg and the status manager make a
// node agent without an Engine, here on a fake runtime and a fake clock: a pod runs,
// crashes, runs again, is deleted, and is gone.
func Example() {
	root := must(os.MkdirTemp("", "example-"))
	defer os.RemoveAll(root)
	clock := clocktesting.NewFakeClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	crash := fake.Script{Crashes: 1, Crash: fake.Exit{After: time.Minute, Code: 3}}
	rt := fake.New(fake.Options{Clock: clock, Script: func(fake.Launch) fake.Script { return crash }})
	a := newAgent(rt, clock, root)
	a.clock = clock
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web-1"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "nginx", Image: "nginx:1.29"}}},
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- a.run(ctx, pod) }()

	a.workers.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Create, Pod: pod})
	u := a.await(func(u status.Update) bool { return u.Status.Phase == v1.PodRunning })
	fmt.Println(u.Name, u.Status.Phase, "at", u.Status.PodIP)
	u = a.await(func(u status.Update) bool {
		return u.Status.ContainerStatuses[0].RestartCount == 1 && u.Status.ContainerStatuses[0].Ready
	})
	c := u.Status.ContainerStatuses[0]
	fmt.Printf("%s runs again after exit code %d\n", c.Name, c.LastTerminationState.Terminated.ExitCode)

	deleted, now := pod.DeepCopy(), metav1.NewTime(clock.Now())
	deleted.DeletionTimestamp = &now
	a.workers.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Update, Pod: deleted})
	u = a.await(func(u status.Update) bool { return u.Finished })
	fmt.Println(u.Name, u.Status.Phase, "for good")
	fmt.Println("finished:", a.workers.WaitFinished(ctx, pod.UID))
	a.workers.SyncKnownPods(nil)
	_, known := a.workers.Explain(pod.UID)
	containers := must(rt.ListContainers(ctx, nil))
	fmt.Println("known to the workers:", known, "- containers in the runtime:", len(containers))
	cancel()
	fmt.Println("ended:", <-ended)
	// Output:
	// web Running at 10.88.0.1
	// nginx runs again after exit code 3
	// web Succeeded for good
	// finished: <nil>
	// known to the workers: false - containers in the runtime: 0
	// ended: <nil>
}
