package podworkers_test

import (
	"context"
	"fmt"
	"math"
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// instantViews is a status source that always has a fresh view, like that of a runtime that answers
// at once.
type instantViews struct {
	runtime.Sequence
	fresh *runtime.PodStatus
}

func newInstantViews() *instantViews {
	return &instantViews{fresh: &runtime.PodStatus{Stamp: math.MaxUint64}}
}

func (s *instantViews) Stamp() runtime.Stamp                       { return s.Next() }
func (s *instantViews) Refresh(types.UID)                          {}
func (s *instantViews) Peek(types.UID) (*runtime.PodStatus, error) { return s.fresh, nil }

func (s *instantViews) GetNewerThan(context.Context, types.UID, runtime.Stamp) (*runtime.PodStatus, error) {
	return s.fresh, nil
}

// counting is a syncer that does nothing but count down to the end of the
// measured part.
type counting struct {
	sync, terminated atomic.Int64
	done             chan struct{}
}

func (c *counting) syncer() podworkers.PodSyncerFuncs {
	return podworkers.PodSyncerFuncs{
		Sync: func(context.Context, podworkers.UpdateType, *v1.Pod, *v1.Pod, *runtime.PodStatus) (podworkers.SyncResult, error) {
			if c.sync.Add(-1) == 0 {
				c.done <- struct{}{}
			}
			return podworkers.SyncResult{}, nil
		},
		Terminated: func(context.Context, *v1.Pod, *runtime.PodStatus) error {
			if c.terminated.Add(-1) == 0 {
				c.done <- struct{}{}
			}
			return nil
		},
	}
}

// bench is a set of workers that run, and pods for them.
type bench struct {
	*counting
	w    *podworkers.Workers
	pods []*v1.Pod
	stop func()
}

func newBench(b *testing.B, pods []*v1.Pod) *bench {
	b.Helper()
	c := &counting{done: make(chan struct{}, 1)}
	w := podworkers.New(c.syncer(), podworkers.Options{Views: newInstantViews()})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	return &bench{c, w, pods, func() { cancel(); <-ended }}
}

// create starts every pod and waits for its first SyncPod.
func (x *bench) create() {
	x.sync.Store(int64(len(x.pods)))
	for _, pod := range x.pods {
		x.w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Create, Pod: pod})
	}
	<-x.done
}

// idle waits until no call is in flight.
func (x *bench) idle() {
	for {
		busy := false
		for _, e := range x.w.Snapshot() {
			busy = busy || e.NextWakeUp.IsZero() && e.State.String() != "finished"
		}
		if !busy {
			return
		}
		goruntime.Gosched()
	}
}

func benchPods(n int) []*v1.Pod {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		grace := int64(30)
		pods[i] = &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				UID:  types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", i*2654435761%(1<<32), i)),
				Name: fmt.Sprintf("pod-%d", i), Namespace: "default",
			},
			Spec: v1.PodSpec{TerminationGracePeriodSeconds: &grace, Containers: []v1.Container{{Name: "c"}}},
		}
	}
	return pods
}

func eachSize(b *testing.B, f func(b *testing.B, n int)) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) { f(b, n) })
	}
}

// BenchmarkCreate: new pods until each had its first SyncPod.
func BenchmarkCreate(b *testing.B) {
	eachSize(b, func(b *testing.B, n int) {
		pods := benchPods(n)
		var spent time.Duration
		for b.Loop() {
			b.StopTimer()
			x := newBench(b, pods)
			goruntime.GC()
			b.StartTimer()
			began := time.Now()
			x.create()
			spent += time.Since(began)
			b.StopTimer()
			x.stop()
			b.StartTimer()
		}
		b.ReportMetric(float64(n)*float64(b.N)/spent.Seconds(), "pods/s")
	})
}

// BenchmarkIdle: what a pod costs while nothing happens.
func BenchmarkIdle(b *testing.B) {
	eachSize(b, func(b *testing.B, n int) {
		pods := benchPods(n)
		var bytes, goroutines float64
		for b.Loop() {
			before, goroutinesBefore := memory(), goruntime.NumGoroutine()
			x := newBench(b, pods)
			x.create()
			x.idle()
			bytes += float64(memory()-before) / float64(n)
			goroutines += float64(goruntime.NumGoroutine()-goroutinesBefore-1) / float64(n)
			x.stop()
		}
		b.ReportMetric(bytes/float64(b.N), "bytes/pod")
		b.ReportMetric(goroutines/float64(b.N), "goroutines/pod")
	})
}

// memory is the heap and the stacks in use after a collection.
func memory() int64 {
	goruntime.GC()
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse) //nolint:gosec // far below
}

// BenchmarkUpdate: one caller updates running pods one after the other.
func BenchmarkUpdate(b *testing.B) {
	eachSize(b, func(b *testing.B, n int) {
		x := newBench(b, benchPods(n))
		defer x.stop()
		x.create()
		x.idle()
		goruntime.GC()
		i := 0
		for b.Loop() {
			x.w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Update, Pod: x.pods[i]})
			if i++; i == n {
				i = 0
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "updates/s")
	})
}

// BenchmarkSyncKnownPods: one housekeeping pass over pods that are all desired.
func BenchmarkSyncKnownPods(b *testing.B) {
	eachSize(b, func(b *testing.B, n int) {
		x := newBench(b, benchPods(n))
		defer x.stop()
		x.create()
		x.idle()
		goruntime.GC()
		for b.Loop() {
			if known := x.w.SyncKnownPods(x.pods); len(known) != n {
				b.Fatal(len(known))
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/pod")
	})
}

// BenchmarkKill: running pods from the kill to the end of the terminated step.
func BenchmarkKill(b *testing.B) {
	eachSize(b, func(b *testing.B, n int) {
		pods := benchPods(n)
		var spent time.Duration
		for b.Loop() {
			b.StopTimer()
			x := newBench(b, pods)
			x.create()
			x.idle()
			x.terminated.Store(int64(n))
			goruntime.GC()
			b.StartTimer()
			began := time.Now()
			for _, pod := range pods {
				x.w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Kill, Pod: pod})
			}
			<-x.done
			spent += time.Since(began)
			b.StopTimer()
			x.stop()
			b.StartTimer()
		}
		b.ReportMetric(float64(n)*float64(b.N)/spent.Seconds(), "pods/s")
	})
}

// BenchmarkDispatch: from UpdatePod to the entry of SyncPod, one idle pod.
func BenchmarkDispatch(b *testing.B) {
	entered := make(chan time.Time)
	w := podworkers.New(podworkers.PodSyncerFuncs{
		Sync: func(context.Context, podworkers.UpdateType, *v1.Pod, *v1.Pod, *runtime.PodStatus) (podworkers.SyncResult, error) {
			entered <- time.Now()
			return podworkers.SyncResult{}, nil
		},
	}, podworkers.Options{Views: newInstantViews()})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	pod := benchPods(1)[0]
	idle := goruntime.NumGoroutine()
	var spent time.Duration
	for b.Loop() {
		began := time.Now()
		w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Update, Pod: pod})
		at := <-entered
		spent += at.Sub(began)
		for goruntime.NumGoroutine() > idle {
			goruntime.Gosched() // until the call has ended
		}
	}
	b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "ns/op")
	cancel()
	<-ended
}
