package podworkers_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// printer is a complete PodSyncer: it "runs" pods by printing.
type printer struct{}

func (printer) SyncPod(_ context.Context, t podworkers.UpdateType, pod, _ *v1.Pod, _ *runtime.PodStatus) (podworkers.SyncResult, error) {
	fmt.Printf("%s: make the containers match the spec (%s)\n", pod.Name, t)
	return podworkers.SyncResult{Acted: true}, nil
}

func (printer) SyncTerminatingPod(_ context.Context, pod *v1.Pod, _ *runtime.PodStatus, grace *int64, edit podworkers.PodStatusFunc) error {
	status := pod.Status
	if edit != nil {
		edit(&status)
	}
	fmt.Printf("%s: stop the containers within %d s (status reason %q)\n", pod.Name, *grace, status.Reason)
	return nil
}

func (printer) SyncTerminatingRuntimePod(_ context.Context, pod *runtime.Pod) error {
	fmt.Printf("%s: stop what the runtime still shows\n", pod.Name)
	return nil
}

func (printer) SyncTerminatedPod(_ context.Context, pod *v1.Pod, _ *runtime.PodStatus) error {
	fmt.Printf("%s: release volumes, publish the last status\n", pod.Name)
	return nil
}

// start runs the workers and returns a function that ends them.
func start(w *podworkers.Workers) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.Run(ctx); err != nil {
			fmt.Println(err)
		}
	}()
	return func() { cancel(); <-done }
}

func examplePod(uid, name string) *v1.Pod {
	grace := int64(30)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID("uid-" + uid), Name: name, Namespace: "default"},
		Spec:       v1.PodSpec{TerminationGracePeriodSeconds: &grace},
	}
}

// A custom syncer, from creation to the end of a pod.
func Example() {
	w := podworkers.New(printer{}, podworkers.Options{})
	defer start(w)()

	pod := examplePod("1", "web")
	outcome := w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Create, Pod: pod})
	wait(func() bool { e, _ := w.Explain(pod.UID); return e.NextWakeUpReason == "resync" })
	fmt.Println("the create was", outcome)

	err := w.KillPod(context.Background(), pod, podworkers.KillOptions{})
	wait(func() bool { return w.ShouldPodBeFinished(pod.UID) })
	fmt.Println("stopped:", err)

	fmt.Println("known pods:", len(w.SyncKnownPods(nil)))
	// Output:
	// web: make the containers match the spec (create)
	// the create was queued
	// web: stop the containers within 30 s (status reason "")
	// web: release volumes, publish the last status
	// stopped: <nil>
	// known pods: 0
}

// An eviction: the status says why, and the content may go at once.
func Example_eviction() {
	w := podworkers.New(printer{}, podworkers.Options{})
	defer start(w)()

	pod := examplePod("1", "hog")
	grace := int64(5)
	err := w.KillPod(context.Background(), pod, podworkers.KillOptions{
		Evict:              true,
		GracePeriodSeconds: &grace,
		StatusFunc: func(status *v1.PodStatus) {
			status.Phase, status.Reason = v1.PodFailed, "Evicted"
		},
	})
	wait(func() bool { return w.ShouldPodBeFinished(pod.UID) })
	fmt.Println(err, w.ShouldPodContentBeRemoved(pod.UID))
	// Output:
	// hog: stop the containers within 5 s (status reason "Evicted")
	// hog: release volumes, publish the last status
	// <nil> true
}

// Two static pods with one full name: the second waits until the first has finished.
func Example_staticPods() {
	w := podworkers.New(printer{}, podworkers.Options{})
	defer start(w)()

	static := func(uid string) *v1.Pod {
		pod := examplePod(uid, "etcd")
		pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
		return pod
	}
	before, after := static("1"), static("2")
	w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Create, Pod: before})
	wait(func() bool { e, _ := w.Explain(before.UID); return e.NextWakeUpReason == "resync" })
	w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Create, Pod: after})
	e, _ := w.Explain(after.UID)
	fmt.Println(e.State, "- waiting for", e.WaitingFor)

	w.SyncKnownPods([]*v1.Pod{after}) // the manifest has a new UID
	wait(func() bool { e, _ := w.Explain(after.UID); return e.NextWakeUpReason == "resync" })
	// Output:
	// etcd: make the containers match the spec (create)
	// queued - waiting for the full name, held by pod uid-1
	// etcd: stop the containers within 30 s (status reason "")
	// etcd: release volumes, publish the last status
	// etcd: make the containers match the spec (create)
}

// A test with a fake clock: ten minutes of back-off in no time. Rand makes the
// pauses exact.
func Example_fakeClock() {
	clock := clocktesting.NewFakeClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	begin := clock.Now()
	attempts := 0
	var mu sync.Mutex
	w := podworkers.New(podworkers.PodSyncerFuncs{
		Sync: func(context.Context, podworkers.UpdateType, *v1.Pod, *v1.Pod, *runtime.PodStatus) (podworkers.SyncResult, error) {
			mu.Lock()
			defer mu.Unlock()
			attempts++
			fmt.Printf("attempt %d after %v\n", attempts, clock.Now().Sub(begin))
			return podworkers.SyncResult{}, fmt.Errorf("no such image")
		},
	}, podworkers.Options{Clock: clock, Rand: func() float64 { return 0 }})
	defer start(w)()

	pod := examplePod("1", "broken")
	w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Create, Pod: pod})
	for failures := 1; failures <= 9; failures++ {
		wait(func() bool { e, _ := w.Explain(pod.UID); return e.Failures == failures && clock.HasWaiters() })
		e, _ := w.Explain(pod.UID)
		clock.SetTime(e.NextWakeUp)
	}
	wait(func() bool { e, _ := w.Explain(pod.UID); return e.Failures == 10 })
	e, _ := w.Explain(pod.UID)
	fmt.Println(e.LastError, "- next attempt in", e.NextWakeUp.Sub(clock.Now()))
	// Output:
	// attempt 1 after 0s
	// attempt 2 after 1s
	// attempt 3 after 3s
	// attempt 4 after 7s
	// attempt 5 after 15s
	// attempt 6 after 31s
	// attempt 7 after 1m3s
	// attempt 8 after 2m7s
	// attempt 9 after 4m15s
	// attempt 10 after 8m31s
	// no such image - next attempt in 5m0s
}

// ExampleWorkers_Explain shows what a program can learn about a pod at any time.
func ExampleWorkers_Explain() {
	w := podworkers.New(podworkers.PodSyncerFuncs{
		Sync: func(ctx context.Context, _ podworkers.UpdateType, _, _ *v1.Pod, _ *runtime.PodStatus) (podworkers.SyncResult, error) {
			<-ctx.Done() // a volume that never comes
			return podworkers.SyncResult{}, context.Cause(ctx)
		},
	}, podworkers.Options{})
	defer start(w)()

	pod := examplePod("1", "db")
	w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Create, Pod: pod})
	wait(func() bool { e, _ := w.Explain(pod.UID); return e.State.String() == "setup" })
	e, _ := w.Explain(pod.UID)
	fmt.Println(e.State, "- waiting for", e.WaitingFor)
	for _, t := range e.Transitions {
		fmt.Printf("%s -> %s: %s\n", t.From, t.To, t.Reason)
	}
	// Output:
	// setup - waiting for SyncPod to return
	// unknown -> queued: created
	// queued -> setup: round began
}

// wait polls; a real program would hear from its syncer.
func wait(until func() bool) {
	tick := time.NewTicker(100 * time.Microsecond)
	defer tick.Stop()
	for !until() {
		<-tick.C
	}
}

// A program wakes a pod whose step waits for something that only the program knows about.
func ExampleWorkers_Wake() {
	steps := make(chan string)
	ready := false
	w := podworkers.New(podworkers.PodSyncerFuncs{
		Sync: func(_ context.Context, _ podworkers.UpdateType, pod, _ *v1.Pod, _ *runtime.PodStatus) (podworkers.SyncResult, error) {
			if !ready {
				steps <- "waits for its licence"
				return podworkers.SyncResult{RequeueAt: time.Now().Add(50 * time.Second)}, nil // in case the wake is lost
			}
			steps <- "runs"
			return podworkers.SyncResult{}, nil
		},
	}, podworkers.Options{})
	defer start(w)()
	pod := examplePod("1", "web")
	w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Create, Pod: pod})
	fmt.Println(pod.Name, <-steps)
	wait(func() bool { e, _ := w.Explain(pod.UID); return e.NextWakeUpReason == "the last step named the time" })
	ready = true
	fmt.Println("woken:", w.Wake(pod.UID))
	fmt.Println(pod.Name, <-steps)
	// Output:
	// web waits for its licence
	// woken: true
	// web runs
}
