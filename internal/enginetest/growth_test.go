package enginetest_test

import (
	"context"
	"fmt"
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
)

// BenchmarkGrowth: the cost of one pod until it runs and after that, depending on how many others
// are ordered with it. For each call the runtime takes as long as containerd 1.6 on two cores, in
// virtual time; the CPU time is real, and includes the fake runtime's share.
func BenchmarkGrowth(b *testing.B) {
	for _, n := range []int{10, 100, 500, 1000} {
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			var sum growth
			for b.Loop() {
				inBubble(b, func(t *testing.T) { sum.add(grow(t, n)) })
			}
			per := float64(n * b.N)
			b.ReportMetric(float64(sum.took.Microseconds())/1000/per, "virtual-ms/pod")
			b.ReportMetric(float64(sum.calls)/per, "calls/pod")
			b.ReportMetric(float64(sum.lists)/per, "lists/pod")
			b.ReportMetric(float64(sum.cpu.Microseconds())/per, "cpu-us/pod")
			b.ReportMetric(float64(sum.bytes)/per, "B/pod")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// growth is the total cost of a number of pods.
type growth struct {
	took, cpu    time.Duration
	calls, lists int
	bytes        int64
}

func (g *growth) add(other growth) {
	g.took += other.took
	g.cpu += other.cpu
	g.calls += other.calls
	g.lists += other.lists
	g.bytes += other.bytes
}

// grow starts n pods and returns the cost.
func grow(t *testing.T, n int) (g growth) {
	t.Helper()
	rt := fake.New(fake.Options{MaxCalls: 1})
	for method, took := range containerdTakes {
		rt.Inject(fake.Fault{Match: fake.Match{Method: method}, Effect: fake.Effect{Delay: took}})
	}
	running := make(chan struct{})
	r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) {
		c.Runtime = &scanning{RuntimeService: rt, cores: make(chan struct{}, 2)}
		c.Observe = podwright.Observe{Sinks: []status.StatusSink{&countdown{left: int64(n), done: running}}}
		c.Checkpoints.Store = &checkpointtest.Memory{}
	}).start()
	<-time.After(time.Minute) // the engine is ready
	before, lists, bytes, cpu := rt.CallCount(""), listCalls(rt), liveMemory(), processCPU(t)
	pods := make([]*v1.Pod, n)
	for i := range pods {
		pods[i] = newPod(fmt.Sprintf("p%04d", i))
	}
	begin := time.Now()
	r.set(pods...)
	<-running
	g = growth{
		took: time.Since(begin), cpu: processCPU(t) - cpu,
		calls: rt.CallCount("") - before, lists: listCalls(rt) - lists,
	}
	clear(pods)
	<-time.After(time.Minute) // the aftermath of the start ends
	g.bytes = liveMemory() - bytes
	return g
}

func listCalls(rt *fake.Runtime) int {
	return rt.CallCount(fake.ListPodSandbox) + rt.CallCount(fake.ListContainers)
}

// liveMemory returns the memory in use after a garbage collection.
func liveMemory() int64 {
	goruntime.GC()
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse) //nolint:gosec // far below
}

// containerdTakes is the time that calls of containerd about one object take.
var containerdTakes = map[fake.Method]time.Duration{
	fake.RunPodSandbox: 150 * time.Millisecond, fake.CreateContainer: 30 * time.Millisecond, fake.StartContainer: 70 * time.Millisecond,
	fake.PodSandboxStatus: time.Millisecond, fake.ContainerStatus: time.Millisecond, fake.ImageStatus: time.Millisecond,
}

// scanning is a runtime without an event stream. Its lists look at every object even if only those of
// one pod are requested, like those of containerd: 6 to 12 ms for 100 objects, on one of two cores.
type scanning struct {
	cri.RuntimeService
	cores                 chan struct{}
	sandboxes, containers atomic.Int64
}

const scanTakes = 90 * time.Microsecond // per object

func (s *scanning) scan(ctx context.Context, objects int64) {
	s.cores <- struct{}{}
	defer func() { <-s.cores }()
	select {
	case <-time.After(time.Duration(objects) * scanTakes):
	case <-ctx.Done():
	}
}

func (s *scanning) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	defer s.sandboxes.Add(1)
	return s.RuntimeService.RunPodSandbox(ctx, config, handler)
}

func (s *scanning) CreateContainer(ctx context.Context, sandbox string, config *runtimeapi.ContainerConfig, pod *runtimeapi.PodSandboxConfig) (string, error) {
	defer s.containers.Add(1)
	return s.RuntimeService.CreateContainer(ctx, sandbox, config, pod)
}

func (s *scanning) ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	s.scan(ctx, s.sandboxes.Load())
	return s.RuntimeService.ListPodSandbox(ctx, filter)
}

func (s *scanning) ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	s.scan(ctx, s.containers.Load())
	return s.RuntimeService.ListContainers(ctx, filter)
}
