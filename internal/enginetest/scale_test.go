package enginetest_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

// BenchmarkStart: from the order of 1,000 pods to the moment all of them run, on a fake runtime that
// answers at once. The result is the cost of the engine itself, with records in memory or on the disk.
func BenchmarkStart(b *testing.B) {
	const n = 1000
	for _, transport := range []string{"direct", "grpc"} {
		for _, records := range []string{"memory", "disk"} {
			b.Run(fmt.Sprintf("runtime=%s/records=%s", transport, records), func(b *testing.B) {
				var cpu time.Duration
				var disk diskWork
				for b.Loop() {
					b.StopTimer()
					s := newStarting(b, n, transport == "grpc", records == "memory", &disk)
					before := processCPU(b)
					b.StartTimer()
					s.begin(b)
					<-s.running
					b.StopTimer()
					cpu += processCPU(b) - before
					s.stop(b)
					b.StartTimer()
				}
				b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "pods/s")
				b.ReportMetric(float64(cpu.Microseconds())/float64(b.N*n), "cpu-us/pod")
				b.ReportMetric(float64(disk.writes.Load())/float64(b.N*n), "records/pod")
				b.ReportMetric(float64(disk.syncs.Load())/float64(b.N), "syncs/op")
			})
		}
	}
}

// diskWork counts the operations on the disk of the records.
type diskWork struct{ writes, syncs atomic.Int64 }

func (d *diskWork) count(op checkpointtest.Op) error {
	switch op.Kind {
	case "write":
		d.writes.Add(1)
	case "sync", "syncdir":
		d.syncs.Add(1)
	}
	return nil
}

// starting is an engine with pods that it has not received yet.
type starting struct {
	engine  *podwright.Engine
	source  *source.Channel
	pods    []*v1.Pod
	running chan struct{} // closed when all pods run
	stop    func(b *testing.B)
}

func newStarting(b *testing.B, n int, socket, memory bool, disk *diskWork) *starting {
	b.Helper()
	s := &starting{running: make(chan struct{}), source: source.NewChannel(source.ChannelOptions{NodeName: "n1", MaxPods: -1})}
	f := fake.New(fake.Options{MaxCalls: 1000})
	var rt containerRuntime = f
	if socket {
		rt = overSocket(b, f)
	}
	root := b.TempDir()
	config := podwright.Config{
		Runtime: rt, Images: rt, Sources: []syncloop.Source{s.source}, RootDir: root, Node: podwright.Node{Name: "n1"},
		Observe: podwright.Observe{Sinks: []status.StatusSink{&countdown{left: int64(n), done: s.running}}},
	}
	config.Checkpoints.Store = &checkpointtest.Memory{}
	if !memory {
		folder := &checkpointtest.Points{FS: checkpoint.Dir(filepath.Join(root, "state", "pods")), Before: disk.count}
		config.Checkpoints.Store = checkpoint.NewFiles(folder)
	}
	var err error
	if s.engine, err = podwright.New(config); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.engine.Run(ctx) }()
	s.stop = func(b *testing.B) {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
		if err := f.Doubled(); err != nil {
			b.Error(err)
		}
	}
	for i := range n {
		s.pods = append(s.pods, newPod(fmt.Sprintf("p%04d", i)))
	}
	return s
}

func (s *starting) begin(b *testing.B) {
	if err := s.source.Set(b.Context(), s.pods); err != nil {
		b.Fatal(err)
	}
}

// countdown is a sink that closes done once it has heard that left pods run.
type countdown struct {
	left int64
	seen sync.Map
	done chan struct{}
}

func (c *countdown) Store(_ context.Context, u status.Update) (status.StoreResult, error) {
	if u.Status.Phase != v1.PodRunning {
		return status.Stored, nil
	}
	if _, again := c.seen.LoadOrStore(u.UID, true); !again && atomic.AddInt64(&c.left, -1) == 0 {
		close(c.done)
	}
	return status.Stored, nil
}

// processCPU returns the CPU time that the process has used so far.
func processCPU(b testing.TB) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// inBubble runs f in virtual time: a synctest bubble needs a test.
func inBubble(b *testing.B, f func(t *testing.T)) {
	b.Helper()
	always := func(string, string) (bool, error) { return true, nil }
	bubble := func(t *testing.T) { synctest.Test(t, f) }
	if !testing.RunTests(always, []testing.InternalTest{{Name: b.Name(), F: bubble}}) {
		b.Fatal("the run failed")
	}
}

// BenchmarkCrashLoops: 1,000 pods whose containers fail as soon as they run, for 10 minutes of
// virtual time.
func BenchmarkCrashLoops(b *testing.B) {
	const n = 1000
	for _, records := range []string{"memory", "disk"} {
		b.Run("records="+records, func(b *testing.B) {
			before, starts, calls := processCPU(b), 0, 0
			for b.Loop() {
				inBubble(b, func(t *testing.T) {
					rt := fake.New(fake.Options{MaxCalls: 1000, Script: func(fake.Launch) fake.Script {
						return fake.Script{Exit: &fake.Exit{After: 100 * time.Millisecond, Code: 1}}
					}})
					r := newRig(t, rt, b.TempDir(), func(c *podwright.Config) {
						c.Observe = podwright.Observe{}
						if records == "memory" {
							c.Checkpoints.Store = &checkpointtest.Memory{}
						}
					}).start()
					pods := make([]*v1.Pod, n)
					for i := range pods {
						pods[i] = newPod(fmt.Sprintf("p%04d", i))
					}
					r.set(pods...)
					<-time.After(10 * time.Minute)
					for _, p := range pods {
						facts := rt.Facts(p.UID, "main")
						starts += facts.Started
						if facts.Started < 5 {
							t.Errorf("%s was started %d times", p.Name, facts.Started)
						}
					}
					calls += rt.CallCount("")
					if err := rt.Doubled(); err != nil {
						t.Error(err)
					}
				})
			}
			b.ReportMetric((processCPU(b)-before).Seconds()/float64(b.N), "cpu-s/op")
			b.ReportMetric(float64(starts)/float64(b.N*n), "starts/pod")
			b.ReportMetric(float64(calls)/float64(starts), "calls/start")
		})
	}
}
