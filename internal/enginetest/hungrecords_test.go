package enginetest_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status/checkpoint"
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

// stuckRecords is a store whose writes do not return while it hangs, whatever their context says.
type stuckRecords struct {
	*checkpoint.Files
	mu    sync.Mutex
	hangs chan struct{} // nil: the store is well
}

// hang lets writes hang until the function is called that it returns.
func (s *stuckRecords) hang() (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hangs := make(chan struct{})
	s.hangs = hangs
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.hangs = nil
		close(hangs)
	})
}

func (s *stuckRecords) Write(ctx context.Context, records []*checkpoint.Record) error {
	s.mu.Lock()
	hangs := s.hangs
	s.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
	return s.Files.Write(ctx, records)
}

// TestHungRecordsHoldUpNoStop: IN1, IN5, CK4, CK6. The writes of records hang for an hour. Pods that are removed, evicted and
// drained stop nevertheless, and others run on. When the store answers, every end is told and the records go.
// It counts goroutines, so nothing runs beside it.
func TestHungRecordsHoldUpNoStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &stuckRecords{Files: checkpoint.NewFiles(&checkpointtest.Disk{})}
		var lines atomic.Int64
		log := funcr.New(func(_, args string) {
			if strings.Contains(args, "checkpoint") {
				lines.Add(1)
			}
		}, funcr.Options{})
		rt := fake.New(fake.Options{})
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) {
			c.Checkpoints.Store, c.Observe.Logger = store, log
		}).start()
		var pods []*v1.Pod
		for i := range 100 {
			pods = append(pods, newPod(fmt.Sprintf("web-%d", i)))
		}
		r.set(pods...)
		for _, p := range pods {
			r.phase(p.UID, v1.PodRunning, time.Minute)
		}
		<-time.After(10 * time.Second)
		synctest.Wait()
		idle := runtime.NumGoroutine()
		end := store.hang()
		t.Cleanup(end) // before the engine is stopped
		stopped := func(gone []*v1.Pod) func() error {
			return func() error {
				for _, p := range gone {
					if n := rt.Running(p.UID, "main"); n > 0 {
						return unmet(func() string { return fmt.Sprintf("%s: %d run, %s", p.UID, n, r.explain(p.UID)) })
					}
				}
				return nil
			}
		}
		r.set(pods[:50]...)
		r.within(30*time.Second, "removed pods to stop", stopped(pods[50:]))
		for _, p := range pods[40:50] {
			go func() { _ = r.engine.EvictPod(t.Context(), p.UID, podwright.EvictOptions{Message: "away"}) }()
		}
		r.within(20*time.Second, "evicted pods to stop", stopped(pods[40:]))
		<-time.After(time.Hour)
		synctest.Wait()
		if n := runtime.NumGoroutine(); n > idle+2*60 {
			t.Errorf("%d goroutines for 60 pods", n-idle)
		}
		if n := lines.Load(); n == 0 || n > 60+10 {
			t.Errorf("%d lines in the log for 60 pods", n)
		}
		for _, p := range pods[:40] {
			if rt.Running(p.UID, "main") != 1 || starts(rt, p.UID) != 1 {
				t.Errorf("%s was disturbed", p.UID)
			}
		}
		end()
		for _, p := range pods[50:] {
			r.within(time.Minute, "the end of a removed pod", func() error {
				if !r.sink.finished(p.UID) || r.pod(p.UID) != nil {
					return unmet(func() string { return r.explain(p.UID) })
				}
				return nil
			})
		}
		for _, p := range pods[40:50] {
			r.within(time.Minute, "the end of an evicted pod", func() error {
				if phases, _ := r.sink.of(p.UID); !slices.Contains(phases, v1.PodFailed) {
					return unmet(func() string { return fmt.Sprintf("%v, %s", phases, r.explain(p.UID)) })
				}
				return nil
			})
		}
		r.within(time.Minute, "health", r.engine.Healthy)

		end = store.hang()
		t.Cleanup(end)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		drained := make(chan error, 1)
		go func() { drained <- r.engine.Drain(ctx) }()
		<-time.After(50 * time.Second)
		synctest.Wait()
		if err := stopped(pods)(); err != nil {
			t.Errorf("a drain: %v", err)
		}
		end()
		<-drained
	})
}
