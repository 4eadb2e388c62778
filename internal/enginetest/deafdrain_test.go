package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
)

// TestDrainWithOneStuckPod: IN1. While one of 100 pods cannot be stopped, a drain removes all others; its error names that pod
// alone, and all of them start again.
func TestDrainWithOneStuckPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root := fake.New(fake.Options{}), t.TempDir()
		pods := []*v1.Pod{newPod("stuck")}
		for i := range 99 {
			pods = append(pods, newPod(fmt.Sprint("web-", i)))
		}
		run := func() *rig {
			r := newRig(t, rt, root, func(c *podwright.Config) { c.Workers.DrainTimeout = time.Second }).start()
			r.set(pods...)
			for _, p := range pods {
				r.phase(p.UID, v1.PodRunning, time.Minute)
			}
			return r
		}
		first := run()
		heal := rt.Inject(fake.Fault{
			Match:  fake.Match{Method: fake.StopContainer, Func: func(c fake.Call) bool { return c.PodUID == "uid-stuck" }},
			Effect: fake.Effect{Hang: true},
		})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		drained := make(chan error)
		go func() { drained <- first.engine.Drain(ctx) }()
		<-time.After(time.Minute)
		left, err := rt.ListPodSandbox(t.Context(), &runtimeapi.PodSandboxFilter{})
		if err != nil || len(left) != 1 || left[0].Metadata.Uid != "uid-stuck" {
			t.Errorf("%d sandboxes are left, %v", len(left), err)
		}
		err = <-drained
		if err == nil || errors.Is(err, podwright.ErrKept) || !strings.Contains(err.Error(), "default/stuck") || strings.Contains(err.Error(), "default/web") {
			t.Errorf("Drain: %v", err)
		}
		<-first.ended
		heal()
		run().stop()
		if err := rt.Doubled(); err != nil {
			t.Error(err)
		}
	})
}

// TestDrainWhileTheRuntimeRestarts: R7. A drain whose runtime lists nothing for a while, as after its restart, leaves
// nothing in the runtime if it says that every pod is gone.
func TestDrainWhileTheRuntimeRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		slow := newPod("slow")
		pods := []*v1.Pod{slow}
		for i := range 10 {
			pods = append(pods, newPod(fmt.Sprint("web-", i)))
		}
		r := newRig(t, rt, t.TempDir()).start()
		r.set(pods...)
		for _, p := range pods {
			r.phase(p.UID, v1.PodRunning, time.Minute)
		}
		rt.Inject(fake.Fault{
			Match:  fake.Match{Method: fake.StopContainer, Func: func(c fake.Call) bool { return c.PodUID == slow.UID }},
			Times:  1,
			Effect: fake.Effect{Delay: 20 * time.Second},
		})
		drained := make(chan error)
		go func() { drained <- r.engine.Drain(t.Context()) }()
		<-time.After(900 * time.Millisecond)
		until := time.Now().Add(5 * time.Second)
		rt.Inject(fake.Fault{Match: fake.Match{Func: func(c fake.Call) bool {
			return (c.Method == fake.ListContainers || c.Method == fake.ListPodSandbox) && time.Now().Before(until)
		}}, Effect: fake.Effect{Keep: func(string) bool { return false }}})
		err := <-drained
		<-r.ended
		left, listErr := rt.ListPodSandbox(t.Context(), &runtimeapi.PodSandboxFilter{})
		if err != nil || listErr != nil || len(left) > 0 {
			t.Errorf("Drain: %v, and %d sandboxes are left, %v", err, len(left), listErr)
		}
	})
}
