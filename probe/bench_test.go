package probe_test

import (
	"context"
	"fmt"
	goruntime "runtime"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/probe"
)

// fleet is many pods with a cheap view of each, and a handler that succeeds at once.
type fleet struct {
	views map[types.UID]probe.View
}

func (f *fleet) View(uid types.UID) (probe.View, bool) {
	v, ok := f.views[uid]
	return v, ok
}

func (f *fleet) Probe(context.Context, probe.Target) (probe.Outcome, error) {
	return probe.Outcome{Result: probe.Success}, nil
}

func newFleet(n int, p func(*v1.Container)) (*fleet, []*v1.Pod) {
	f := &fleet{views: make(map[types.UID]probe.View, n)}
	pods := make([]*v1.Pod, n)
	for i := range pods {
		pods[i] = newPod(fmt.Sprint(i), p)
		f.views[pods[i].UID] = probe.View{Pod: pods[i], Status: &v1.PodStatus{
			Phase: v1.PodRunning, PodIP: "10.0.0.1",
			ContainerStatuses: []v1.ContainerStatus{up(fmt.Sprintf("%064d", i), true, time.Now())},
		}}
	}
	return f, pods
}

func (f *fleet) options() probe.Options {
	return probe.Options{Pods: f, Handler: func(probe.Target) probe.Handler { return f }}
}

// BenchmarkIdleProbes is what probes cost between their runs.
func BenchmarkIdleProbes(b *testing.B) {
	b.Run("probes=10000", func(b *testing.B) {
		for b.Loop() {
			inBubble(b, func() { idleProbes(b, 10_000) })
		}
		b.ReportMetric(0, "ns/op")
	})
}

// inBubble runs f in virtual time: a bubble needs a test.
func inBubble(b *testing.B, f func()) {
	always := func(string, string) (bool, error) { return true, nil }
	if !testing.RunTests(always, []testing.InternalTest{{Name: b.Name(), F: func(t *testing.T) {
		synctest.Test(t, func(*testing.T) { f() })
	}}}) {
		b.Fatal("the run failed")
	}
}

func heap() uint64 {
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.HeapAlloc
}

func idleProbes(b *testing.B, n int) {
	f, pods := newFleet(n, readiness())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	before := heap()
	m, err := probe.New(f.options())
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()
	synctest.Wait()
	alone := goruntime.NumGoroutine()
	for _, p := range pods {
		m.AddPod(p)
	}
	<-time.After(time.Minute)
	synctest.Wait()
	b.ReportMetric(float64(heap()-before)/float64(n), "bytes/probe")
	b.ReportMetric(float64(goruntime.NumGoroutine()-alone), "goroutines-for-probes")
	b.ReportMetric(float64(alone), "goroutines")
	goruntime.KeepAlive(m)
	cancel()
	<-ended
}

// BenchmarkSchedule is the engine's own cost of a run: 5,000 probes, each once a
// virtual second, with a handler that answers at once.
func BenchmarkSchedule(b *testing.B) {
	b.Run("probes=5000", func(b *testing.B) {
		const probes, seconds = 5000, 20
		var perRun time.Duration
		rounds := 0
		for b.Loop() {
			inBubble(b, func() {
				f, pods := newFleet(probes, liveness(every(1)))
				ctx, cancel := context.WithCancel(context.Background())
				m, err := probe.New(f.options())
				if err != nil {
					b.Fatal(err)
				}
				ended := make(chan error)
				go func() { ended <- m.Run(ctx) }()
				for _, p := range pods {
					m.AddPod(p)
				}
				<-time.After(2 * time.Second)
				synctest.Wait()
				begin := cpu(b)
				<-time.After(seconds * time.Second)
				synctest.Wait()
				perRun += (cpu(b) - begin) / (probes * seconds)
				rounds++
				cancel()
				<-ended
			})
		}
		b.ReportMetric(float64(perRun.Nanoseconds())/float64(rounds)/1000, "CPU-µs/run")
		b.ReportMetric(0, "ns/op")
	})
}
