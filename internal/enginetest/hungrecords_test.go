package enginetest_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/status/checkpoint/checkpointtest"
)

// slowRecords is a store whose Load waits until answers is closed or the context ends.
type slowRecords struct {
	*checkpoint.Files
	answers <-chan struct{}
}

func (s slowRecords) Load(ctx context.Context) (checkpoint.Loaded, error) {
	select {
	case <-s.answers:
		return s.Files.Load(ctx)
	case <-ctx.Done():
		return checkpoint.Loaded{}, context.Cause(ctx)
	}
}

// TestHungRecordFolderIsNotSilent: IN1, IN2. An agent whose folder of records does not answer says
// so in its log and health, touches no pod, and can be stopped. When the folder answers, all pods
// continue, except that those removed meanwhile stop.
func TestHungRecordFolderIsNotSilent(t *testing.T) {
	t.Parallel()
	for _, answers := range []bool{true, false} {
		t.Run(fmt.Sprintf("answers %v", answers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { hangRecords(t, answers) })
		})
	}
}

func hangRecords(t *testing.T, answers bool) {
	rt, root, disk := fake.New(fake.Options{}), t.TempDir(), &checkpointtest.Disk{}
	var pods []*v1.Pod
	for i := range 100 {
		pods = append(pods, newPod(fmt.Sprintf("web-%d", i)))
	}
	gone := pods[99]
	open := make(chan struct{})
	close(open)
	start := func(answers <-chan struct{}, log func(prefix, args string)) *rig {
		return newRig(t, rt, root, func(c *podwright.Config) {
			c.Checkpoints.Store = slowRecords{checkpoint.NewFiles(disk), answers}
			c.Observe.Logger = funcr.New(log, funcr.Options{})
		}).start()
	}
	r := start(open, func(string, string) {})
	r.set(pods...)
	for _, p := range pods {
		r.phase(p.UID, v1.PodRunning, time.Minute)
	}
	<-time.After(10 * time.Second)
	r.stop()
	lists := rt.CallCount(fake.ListPodSandbox)

	var mu sync.Mutex
	var lines []string
	folder := make(chan struct{})
	r = start(folder, func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(args, "records") {
			lines = append(lines, args)
		}
	})
	go func() { _ = r.source.Set(t.Context(), pods[:99]) }() // the engine does not take the set yet
	<-time.After(15 * time.Second)
	synctest.Wait()
	mu.Lock()
	if len(lines) == 0 {
		t.Error("15 s without a word in the log")
	}
	mu.Unlock()
	<-time.After(20 * time.Second)
	if err := r.engine.Healthy(); err == nil || !strings.Contains(err.Error(), "records") {
		t.Errorf("health: %v", err)
	}
	if r.runtime.CallCount(fake.ListPodSandbox) == lists {
		t.Error("the runtime is not watched")
	}
	<-time.After(time.Hour)
	if n := rt.CallCount(fake.StopContainer) + rt.CallCount(fake.StopPodSandbox); n > 0 || rt.CallCount(fake.StartContainer) != 100 {
		t.Errorf("pods were touched: %d stops", n)
	}
	if !answers {
		r.stop()
		return
	}
	close(folder)
	r.within(time.Minute, "health", r.engine.Healthy)
	r.within(time.Minute, "the removed pod to stop", func() error {
		if n := rt.Running(gone.UID, "main"); n > 0 {
			return fmt.Errorf("%d run", n)
		}
		return nil
	})
	for _, p := range pods[:99] {
		r.phase(p.UID, v1.PodRunning, time.Second)
		if n := starts(rt, p.UID); n != 1 {
			t.Fatalf("%s: %d starts", p.UID, n)
		}
	}
}
