package enginetest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

// The flags of make fleet.
var (
	fleetEngines = flag.Int("fleet.engines", 10, "engines of TestFleet")
	fleetPods    = flag.Int("fleet.pods", 20, "pods of each engine of TestFleet")
	fleetFor     = flag.Duration("fleet.for", 10*time.Minute, "virtual time that TestFleet's pods run")
	fleetMiB     = flag.Int("fleet.mib", 0, "the most memory in MiB that the process of TestFleet may have had; 0: any")
	fleetHeap    = flag.String("fleet.heap", "", "file for a heap profile of TestFleet's idle pods")
)

// TestFleet: many engines in one process start their pods, run them (one in a hundred fails per
// minute and restarts), remove them and stop. Nothing is left.
func TestFleet(t *testing.T) {
	table := newFleetTable(t)
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, root, *fleetEngines, *fleetPods)
		f.start(t)
		table.row(t, "start", f.size(), "pods")
		<-time.After(time.Minute)
		f.profile(t)
		table.row(t, "a minute without failures", f.size(), "pods")
		table.row(t, "failures", f.live(t, *fleetFor), "restarts")
		f.remove(t)
		table.row(t, "remove", f.size(), "pods")
		f.stop(t)
		table.row(t, "stop", len(f.nodes), "engines")
	})
	table.print(t)
	if peak := memoryOf(t, "VmHWM"); *fleetMiB > 0 && peak > uint64(*fleetMiB)<<20 { //nolint:gosec // positive
		t.Errorf("the process had %d MiB, want %d at most", peak>>20, *fleetMiB)
	}
}

// fleet is many engines, each with its own runtime, pods and folder.
type fleet struct {
	nodes  []*fleetNode
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

type fleetNode struct {
	engine *podwright.Engine
	rt     *fake.Runtime
	source *source.Channel
	pods   []types.UID
	number int
	root   string
	told   *fleetSink
	err    error // of Run
}

func newFleet(t *testing.T, root string, engines, pods int) *fleet {
	t.Helper()
	f := &fleet{}
	for i := range engines {
		n := &fleetNode{
			rt: fake.New(fake.Options{MaxCalls: 1}), source: source.NewChannel(source.ChannelOptions{NodeName: "n1", MaxPods: -1}),
			root: filepath.Join(root, strconv.Itoa(i)), told: &fleetSink{running: map[types.UID]bool{}},
		}
		if err := os.Mkdir(n.root, 0o750); err != nil {
			t.Fatal(err)
		}
		n.number = i
		for j := range pods {
			n.pods = append(n.pods, n.pod(j).UID)
		}
		config := podwright.Config{
			Runtime: n.rt, Images: n.rt, Sources: []syncloop.Source{n.source}, RootDir: n.root, Node: podwright.Node{Name: "n1"},
			Observe: podwright.Observe{Sinks: []status.StatusSink{n.told}},
		}
		config.Checkpoints.Store = &checkpointtest.Memory{}
		config.Pods.NoManagedMounts = true // other tests measure the files of pods
		var err error
		if n.engine, err = podwright.New(config); err != nil {
			t.Fatal(err)
		}
		f.nodes = append(f.nodes, n)
	}
	return f
}

// pod makes a pod of the node.
func (n *fleetNode) pod(i int) *v1.Pod { return newPod(fmt.Sprintf("p%d-%d", n.number, i)) }

// size is the number of pods.
func (f *fleet) size() int { return len(f.nodes) * len(f.nodes[0].pods) }

// start runs the engines until all pods run.
func (f *fleet) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f.cancel = cancel
	for _, n := range f.nodes {
		f.ended.Go(func() { n.err = n.engine.Run(ctx) })
		wanted := make([]*v1.Pod, len(n.pods))
		for i := range wanted {
			wanted[i] = n.pod(i)
		}
		if err := n.source.Set(ctx, wanted); err != nil {
			t.Fatal(err)
		}
	}
	f.await(t, func(n *fleetNode) error {
		if got := n.told.count(); got != len(n.pods) {
			return fmt.Errorf("%d pods of %d run", got, len(n.pods))
		}
		return nil
	})
}

// await checks the nodes every second of virtual time until check succeeds for all of them.
func (f *fleet) await(t *testing.T, check func(n *fleetNode) error) {
	t.Helper()
	begin := time.Now()
	for i := 0; i < len(f.nodes); {
		err := check(f.nodes[i])
		switch {
		case err == nil:
			i++
		case time.Since(begin) > 5*time.Minute:
			t.Fatalf("engine %d, after %v: %v", i, time.Since(begin), err)
		default:
			<-time.After(time.Second)
		}
	}
}

// live makes one pod in a hundred fail per minute, and returns the number of containers that
// replaced a failed one.
func (f *fleet) live(t *testing.T, span time.Duration) (restarts int) {
	t.Helper()
	failed := 0
	for minute := range int(span / time.Minute) {
		for i := minute % 100; i < f.size(); i += 100 {
			n, pod := f.nodes[i%len(f.nodes)], i/len(f.nodes)
			if err := n.rt.Exit(n.pods[pod], "main", fake.Exit{Code: 1}); err != nil {
				t.Error(err)
			}
			failed++
		}
		<-time.After(time.Minute)
	}
	f.await(t, func(n *fleetNode) error {
		for _, uid := range n.pods {
			if facts := n.rt.Facts(uid, "main"); facts.Running != 1 {
				return fmt.Errorf("pod %s: %+v", uid, facts)
			}
		}
		return nil
	})
	for _, n := range f.nodes {
		for _, uid := range n.pods {
			restarts += n.rt.Facts(uid, "main").Started - 1
		}
		if err := n.rt.Doubled(); err != nil {
			t.Error(err)
		}
	}
	if restarts != failed {
		t.Errorf("%d containers failed, %d were started in their place", failed, restarts)
	}
	return restarts
}

// remove removes all pods, and waits until nothing is left of them.
func (f *fleet) remove(t *testing.T) {
	t.Helper()
	for _, n := range f.nodes {
		if err := n.source.Set(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	f.await(t, func(n *fleetNode) error {
		containers, err := n.rt.ListContainers(t.Context(), nil)
		sandboxes, err2 := n.rt.ListPodSandbox(t.Context(), nil)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		folders, err := os.ReadDir(filepath.Join(n.root, "pods"))
		logs, err2 := os.ReadDir(filepath.Join(n.root, "logs"))
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		if left := len(n.engine.Pods()) + len(containers) + len(sandboxes) + len(folders) + len(logs); left > 0 {
			return fmt.Errorf("%d pods known, %d containers, %d sandboxes, %d folders, %d log folders",
				len(n.engine.Pods()), len(containers), len(sandboxes), len(folders), len(logs))
		}
		return nil
	})
}

// stop ends the engines. The bubble reports anything left running.
func (f *fleet) stop(t *testing.T) {
	t.Helper()
	f.cancel()
	f.ended.Wait()
	for i, n := range f.nodes {
		if n.err != nil {
			t.Errorf("engine %d: %v", i, n.err)
		}
	}
}

// profile writes a heap profile, if one is asked for.
func (f *fleet) profile(t *testing.T) {
	t.Helper()
	if *fleetHeap == "" {
		return
	}
	goruntime.GC()
	out, err := os.Create(*fleetHeap)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(pprof.WriteHeapProfile(out), out.Close()); err != nil {
		t.Fatal(err)
	}
}

// fleetSink knows which pods run.
type fleetSink struct {
	mu      sync.Mutex
	running map[types.UID]bool
}

func (s *fleetSink) Store(_ context.Context, u status.Update) (status.StoreResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.Status.Phase == v1.PodRunning {
		s.running[u.UID] = true
	}
	return status.Stored, nil
}

func (s *fleetSink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.running)
}

// fleetTable shows the cost of each part of a fleet's life.
type fleetTable struct {
	text  strings.Builder
	out   *tabwriter.Writer
	pods  int
	empty uint64 // resident memory before the first part
	wall  time.Time
	cpu   time.Duration
}

func newFleetTable(t *testing.T) *fleetTable {
	t.Helper()
	f := &fleetTable{pods: *fleetEngines * *fleetPods}
	debug.FreeOSMemory()
	f.empty, f.wall, f.cpu = memoryOf(t, "VmRSS"), realTime(t), processCPU(t)
	f.out = tabwriter.NewWriter(&f.text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(f.out, "part\tdone\twall s\tCPU s\tdone per s\tRSS MiB\tRSS kB per pod\theap kB per pod\tgoroutines")
	return f
}

// row ends a part and records what it cost per item, of which there were n.
func (f *fleetTable) row(t *testing.T, part string, n int, what string) {
	t.Helper()
	wall, cpu, rss := realTime(t), processCPU(t), memoryOf(t, "VmRSS")
	took, goroutines := wall.Sub(f.wall).Seconds(), goruntime.NumGoroutine()
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	t.Logf("%s: %.0f s, %d MiB", part, took, rss>>20) // a large fleet takes an hour
	fmt.Fprintf(f.out, "%s\t%d %s\t%.1f\t%.1f\t%.0f\t%d\t%.0f\t%.1f\t%d\n", part, n, what, took, (cpu - f.cpu).Seconds(), float64(n)/took,
		rss>>20, float64(rss-min(rss, f.empty))/float64(f.pods)/1000, float64(m.HeapAlloc+m.StackInuse)/float64(f.pods)/1000, goroutines)
	f.wall, f.cpu = realTime(t), processCPU(t)
}

func (f *fleetTable) print(t *testing.T) {
	t.Helper()
	_ = f.out.Flush()
	t.Logf("%d engines with %d pods each, %v with failures; the most memory %d MiB\n%s",
		*fleetEngines, *fleetPods, *fleetFor, memoryOf(t, "VmHWM")>>20, f.text.String())
}

// realTime is the machine's time, even in a bubble.
func realTime(t *testing.T) time.Time {
	t.Helper()
	var now syscall.Timeval
	if err := syscall.Gettimeofday(&now); err != nil {
		t.Fatal(err)
	}
	return time.Unix(now.Sec, now.Usec*1000)
}

// memoryOf returns a field of this process's memory in bytes: VmRSS is the current amount, VmHWM
// the peak.
func memoryOf(t *testing.T, field string) uint64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), field+":")
	var kib uint64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatalf("%s: %v", field, err)
	}
	return kib << 10
}
