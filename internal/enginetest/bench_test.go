package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"

	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

// node is an engine with pods of one container that runs, on the real clock.
type node struct {
	runtime *fake.Runtime
	engine  *podwright.Engine
	edges   *edges
	pods    []*v1.Pod
	// created receives the moment of every CreateContainer.
	created chan creation
}

type creation struct {
	pod types.UID
	at  time.Time
}

// newNode starts an engine with n pods and waits until all of them run. connect
// gives the engine its runtime; nil means the fake itself.
func newNode(b *testing.B, n int, connect func(*fake.Runtime) containerRuntime) *node {
	b.Helper()
	e := &node{edges: &edges{records: map[string][]record{}}, created: make(chan creation, n)}
	e.runtime = fake.New(fake.Options{MaxCalls: 1000, Script: func(l fake.Launch) fake.Script {
		e.created <- creation{l.PodUID, time.Now()}
		return fake.Script{}
	}})
	var rt containerRuntime = e.runtime
	if connect != nil {
		rt = connect(e.runtime)
	}
	wanted := source.NewChannel(source.ChannelOptions{NodeName: "n1", MaxPods: -1})
	var err error
	e.engine, err = podwright.New(podwright.Config{
		Runtime: rt, Images: rt, Sources: []syncloop.Source{wanted}, RootDir: b.TempDir(), Node: podwright.Node{Name: "n1"},
		// Restarts are measured, not the pauses between them.
		Pods:    pods.Options{CrashLoopBackOff: pods.BackOffPolicy{Initial: 1, Factor: 1, Max: 1}},
		Observe: podwright.Observe{MeterProvider: e.edges},
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.engine.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	for i := range n {
		e.pods = append(e.pods, newPod(fmt.Sprintf("p%03d", i)))
	}
	if err := wanted.Set(ctx, e.pods); err != nil {
		b.Fatal(err)
	}
	e.await(b, "all pods to run", func() bool {
		select {
		case <-e.created:
		default:
		}
		running := 0
		for _, p := range e.engine.Pods() {
			if p.Status.Phase == v1.PodRunning {
				running++
			}
		}
		return running == n
	})
	e.drain()
	return e
}

// await polls until check succeeds.
func (e *node) await(b *testing.B, what string, check func() bool) {
	b.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if check() {
			return
		}
		if b.Context().Err() != nil {
			b.Fatalf("gave up waiting for %s", what)
		}
	}
}

// drain forgets the creations so far.
func (e *node) drain() {
	for {
		select {
		case <-e.created:
		default:
			return
		}
	}
}

// exitAndRestart ends the container of the i-th pod and returns the time of the exit and the time
// when its successor was created.
func (e *node) exitAndRestart(b *testing.B, i int) (exit, restart time.Time) {
	b.Helper()
	uid := e.pods[i%len(e.pods)].UID
	e.await(b, "the container to run", func() bool { return e.runtime.Running(uid, "main") == 1 })
	exit = time.Now()
	if err := e.runtime.Exit(uid, "main", fake.Exit{Code: 1}); err != nil {
		b.Fatal(err)
	}
	for c := range e.created {
		if c.pod == uid {
			return exit, c.at
		}
	}
	return exit, restart
}

// BenchmarkEventToSync: from the exit of one of 110 containers to the pod's sync.
func BenchmarkEventToSync(b *testing.B) {
	e := newNode(b, 110, nil)
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		e.edges.forget()
		exit, _ := e.exitAndRestart(b, i)
		entered, ok := e.edges.last("podwright_exit_worker_seconds")
		if !ok {
			b.Fatal("the sync that restarted the container was not seen to begin")
		}
		took = append(took, entered.Sub(exit))
	}
	report(b, took)
	if err := e.runtime.Doubled(); err != nil {
		b.Error(err)
	}
}

// BenchmarkExitToRestart: from the exit of one of 110 containers to the creation
// of the next, with the runtime on the other side of a socket.
func BenchmarkExitToRestart(b *testing.B) {
	e := newNode(b, 110, func(f *fake.Runtime) containerRuntime { return overSocket(b, f) })
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		exit, restart := e.exitAndRestart(b, i)
		took = append(took, restart.Sub(exit))
	}
	report(b, took)
	for _, edge := range []string{"seen", "refreshed", "worker", "call"} {
		values := e.edges.values("podwright_exit_" + edge + "_seconds")
		if len(values) == 0 {
			b.Fatalf("edge %s was not measured", edge)
		}
		slices.Sort(values)
		b.ReportMetric(values[len(values)/2]*1000, edge+"-p50-ms")
	}
	if err := e.runtime.Doubled(); err != nil {
		b.Error(err)
	}
}

// report reports the distribution of a latency.
func report(b *testing.B, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	at := func(share float64) float64 {
		return float64(took[int(share*float64(len(took)-1))]) / float64(time.Millisecond)
	}
	b.ReportMetric(0, "ns/op") // the benchmark waits between two exits
	b.ReportMetric(at(0.5), "p50-ms")
	b.ReportMetric(at(0.99), "p99-ms")
	b.ReportMetric(at(1), "max-ms")
}

// containerRuntime is a runtime with its images.
type containerRuntime interface {
	cri.RuntimeService
	cri.ImageService
}

// overSocket serves a fake on a socket and connects to it.
func overSocket(b *testing.B, f *fake.Runtime) *cri.Client {
	b.Helper()
	path := filepath.Join(b.TempDir(), "cri.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- f.Serve(ctx, listener) }()
	client, err := cri.Dial(ctx, "unix://"+path, cri.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		closeErr := client.Close()
		cancel()
		if err := errors.Join(closeErr, <-done); err != nil {
			b.Error(err)
		}
	})
	return client
}

// edges is a meter provider that remembers what histograms recorded since forget.
type edges struct {
	noop.MeterProvider

	mu      sync.Mutex
	records map[string][]record
}

type record struct {
	at    time.Time
	value float64
}

func (e *edges) Meter(string, ...metric.MeterOption) metric.Meter { return edgeMeter{edges: e} }

// last returns the time at which a histogram last recorded a value.
func (e *edges) last(name string) (time.Time, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.records[name]
	if len(all) == 0 {
		return time.Time{}, false
	}
	return all[len(all)-1].at, true
}

// values returns the values that a histogram recorded.
func (e *edges) values(name string) []float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	var values []float64
	for _, r := range e.records[name] {
		values = append(values, r.value)
	}
	return values
}

func (e *edges) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.records = map[string][]record{}
}

type edgeMeter struct {
	noop.Meter
	edges *edges
}

func (m edgeMeter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	if !strings.HasPrefix(name, "podwright_exit_") {
		return noop.Float64Histogram{}, nil
	}
	return edgeHistogram{name: name, edges: m.edges}, nil
}

type edgeHistogram struct {
	noop.Float64Histogram
	name  string
	edges *edges
}

func (h edgeHistogram) Record(_ context.Context, value float64, _ ...metric.RecordOption) {
	h.edges.mu.Lock()
	defer h.edges.mu.Unlock()
	h.edges.records[h.name] = append(h.edges.records[h.name], record{time.Now(), value})
}
