package pleg_test

import (
	"context"
	"flag"
	"fmt"
	goruntime "runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
)

// agent is the smallest consumer of a generator that can do harm: for each pod it
// keeps one container running and starts another when that has exited. Acting on
// a view that does not show its own last call would start two.
type agent struct {
	tb      testing.TB
	fake    *fake.Runtime
	pleg    *pleg.Generator
	changes *pleg.Subscription

	mu      sync.Mutex
	entered func(uid types.UID, status *runtime.PodStatus) // each sync begins
	workers map[types.UID]chan struct{}
	wait    sync.WaitGroup
}

func newAgent(tb testing.TB, f *fake.Runtime, options pleg.Options) *agent {
	tb.Helper()
	g, err := pleg.New(f, options)
	if err != nil {
		tb.Fatal(err)
	}
	return &agent{tb: tb, fake: f, pleg: g, changes: g.Subscribe(), workers: map[types.UID]chan struct{}{}}
}

// run runs the generator and a worker per pod until the returned function is
// called.
func (a *agent) run(uids []types.UID) (stop func()) {
	ctx, cancel := context.WithCancel(a.tb.Context())
	a.wait.Go(func() {
		if err := a.pleg.Run(ctx); err != nil {
			a.tb.Errorf("Run: %v", err)
		}
	})
	for _, uid := range uids {
		wake := make(chan struct{}, 1)
		wake <- struct{}{}
		a.workers[uid] = wake
		a.wait.Go(func() { a.work(ctx, uid, wake) })
	}
	a.wait.Go(func() {
		for {
			select {
			case <-a.changes.Ready():
			case <-ctx.Done():
				return
			}
			for _, e := range a.changes.Take() {
				select {
				case a.workers[e.UID] <- struct{}{}:
				default:
				}
			}
		}
	})
	return func() { cancel(); a.wait.Wait() }
}

// work is one pod's worker: it never acts on a view older than its last call.
func (a *agent) work(ctx context.Context, uid types.UID, wake <-chan struct{}) {
	var last runtime.Stamp
	for {
		select {
		case <-wake:
		case <-ctx.Done():
			return
		}
		status, err := a.pleg.GetNewerThan(ctx, uid, last)
		if err != nil {
			continue // the next reading brings another event
		}
		a.mu.Lock()
		entered := a.entered
		a.mu.Unlock()
		if entered != nil {
			entered(uid, status)
		}
		if status.ContainersRunning() {
			continue
		}
		a.pleg.Hold(uid)
		err = a.start(ctx, uid, status)
		last = a.pleg.Stamp()
		a.pleg.Release(uid)
		a.pleg.Refresh(uid)
		if err != nil && ctx.Err() == nil {
			a.tb.Errorf("start %s: %v", uid, err)
		}
	}
}

func (a *agent) start(ctx context.Context, uid types.UID, status *runtime.PodStatus) error {
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: string(uid), Namespace: "ns", Uid: string(uid)}, Labels: agentLabels(uid),
	}
	var sandbox string
	for _, s := range status.Sandboxes {
		if s.State == runtime.Running {
			sandbox = s.ID
		}
	}
	if sandbox == "" {
		var err error
		if sandbox, err = a.fake.RunPodSandbox(ctx, config, ""); err != nil {
			return err
		}
	}
	var attempt uint32
	if len(status.Containers) > 0 {
		attempt = uint32(status.Containers[0].RestartCount) + 1
	}
	id, err := a.fake.CreateContainer(ctx, sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "c", Attempt: attempt},
		Image:    &runtimeapi.ImageSpec{Image: "img"}, Labels: agentLabels(uid),
		Annotations: map[string]string{runtime.AnnotationRestartCount: fmt.Sprint(attempt)},
	}, config)
	if err != nil {
		return err
	}
	if err := a.fake.StartContainer(ctx, id); err != nil {
		return err
	}
	for i, c := range status.Containers {
		if i > 0 { // the newest dead one is kept as the record of its end
			if err := a.fake.RemoveContainer(ctx, c.ID.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

func agentLabels(uid types.UID) map[string]string {
	return map[string]string{runtime.LabelPodUID: string(uid), runtime.LabelPodName: string(uid), runtime.LabelPodNamespace: "ns"}
}

func agentPods(n int) []types.UID {
	uids := make([]types.UID, n)
	for i := range uids {
		uids[i] = types.UID(fmt.Sprintf("pod-%03d", i))
	}
	return uids
}

// hour makes every cell of the fault matrix last a virtual hour.
var hour = flag.Bool("faults.hour", false, "run each cell of the fault matrix for a virtual hour")

// cell is one row of the fault matrix.
type cell struct {
	name    string
	event   func(fake.Event) fake.Delivery
	silent  bool // no stream at all
	faults  []fake.Fault
	hung    types.UID
	latency time.Duration // worst from an exit to its restart, others than hung
}

// faultCells: the stream drops, delays, doubles and reorders 0, 10, 50 and 100 %
// of its events, is silent; lists fail; one pod's status hangs.
func faultCells() []cell {
	share := func(percent int, d fake.Delivery) func(fake.Event) fake.Delivery {
		return func(e fake.Event) fake.Delivery {
			if e.Number*37%100 < percent {
				return d
			}
			return fake.Delivery{}
		}
	}
	cells := []cell{{name: "silent stream", silent: true, latency: 1100 * time.Millisecond}}
	for _, percent := range []int{0, 10, 50, 100} {
		for _, f := range []struct {
			name     string
			delivery fake.Delivery
			latency  time.Duration
		}{
			{"dropped", fake.Delivery{Drop: true}, 1100 * time.Millisecond},
			{"delayed", fake.Delivery{Delay: 3 * time.Second}, 1100 * time.Millisecond},
			{"doubled", fake.Delivery{Copies: 3}, 0},
			{"reordered", fake.Delivery{Behind: 5}, 1100 * time.Millisecond},
		} {
			latency := f.latency
			if percent == 0 {
				latency = 0
			}
			cells = append(cells, cell{name: fmt.Sprintf("%3d %% %s", percent, f.name), event: share(percent, f.delivery), latency: latency})
		}
	}
	hang := func(m fake.Method) fake.Fault {
		return fake.Fault{Match: fake.Match{Method: m, PodUID: "pod-042"}, Effect: fake.Effect{Hang: true}}
	}
	broken := fake.Fault{Match: fake.Match{Method: fake.ListContainers, Func: everyThird()}, Effect: fake.Effect{Err: runtime.ErrUnavailable}}
	return append(
		cells,
		cell{name: "every third list fails, no stream", silent: true, faults: []fake.Fault{broken}, latency: 2100 * time.Millisecond},
		cell{name: "status of one pod hangs", faults: []fake.Fault{hang(fake.ContainerStatus)}, hung: "pod-042"},
		cell{name: "status of one pod hangs, no stream", silent: true, faults: []fake.Fault{hang(fake.ContainerStatus), hang(fake.PodSandboxStatus)}, hung: "pod-042", latency: 1100 * time.Millisecond},
	)
}

// everyThird matches every third list of everything.
func everyThird() func(fake.Call) bool {
	var mu sync.Mutex
	n := 0
	return func(c fake.Call) bool {
		if r, ok := c.Request.(*runtimeapi.ListContainersRequest); ok && len(r.GetFilter().GetLabelSelector()) > 0 {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		n++
		return n%3 == 0
	}
}

// The fault matrix: whatever the stream and the lists do, every container that exits is replaced by
// exactly one, pods that are not affected keep their latency, and health names the one that hangs
// (PI13, PI14, EV2, B2, B5).
func TestFaultMatrix(t *testing.T) {
	const pods = 110
	for _, c := range faultCells() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := fake.New(fake.Options{Images: []fake.Image{{Ref: "img"}}})
				options := pleg.Options{}
				if !c.silent {
					options.Streamer = f
					f.OnEvent(c.event)
				}
				a := newAgent(t, f, options)
				uids := agentPods(pods)
				stop := a.run(uids)
				await(3 * time.Second)
				f.Inject(c.faults...)
				worst := time.Duration(0)
				exits, gap := 12, 10*time.Second
				if c.hung != "" {
					gap = time.Minute
				}
				if *hour {
					exits, gap = 60, time.Minute
				}
				for i := range exits {
					// One in 20 exits is of the pod that may hang.
					uid := uids[(i*7)%pods]
					if i%20 == 3 {
						uid = "pod-042"
					}
					if uid == c.hung && i > 3 {
						continue
					}
					if err := f.Exit(uid, "c", fake.Exit{Code: 1}); err != nil {
						t.Fatal(err)
					}
					worst = max(worst, restartTime(t, f, uid, uid == c.hung))
					await(gap)
				}
				h := a.pleg.Health()
				if c.hung != "" && (len(h.Hung) != 1 || h.Hung[0].UID != c.hung) || c.hung == "" && len(h.Hung) != 0 {
					t.Errorf("health names %v", h.Hung)
				}
				if h.Err != nil {
					t.Errorf("health: %v", h.Err)
				}
				stop()
				if err := f.Doubled(); err != nil {
					t.Error(err)
				}
				for _, uid := range uids {
					if uid != c.hung && f.Running(uid, "c") != 1 {
						t.Errorf("%s: %d running, want 1", uid, f.Running(uid, "c"))
					}
				}
				if worst > c.latency {
					t.Errorf("an exit was answered after %v, want at most %v", worst, c.latency)
				}
				t.Logf("exit to restart at most %6v, duplicates 0", worst)
			})
		})
	}
}

// restartTime waits until the pod's container runs again and returns how long
// that took; a hung pod is not waited for.
func restartTime(t *testing.T, f *fake.Runtime, uid types.UID, hung bool) time.Duration {
	start := time.Now()
	for !hung {
		synctest.Wait()
		if f.Running(uid, "c") == 1 {
			break
		}
		if time.Since(start) > time.Minute {
			t.Fatalf("%s was not restarted", uid)
		}
		await(50 * time.Millisecond)
	}
	return time.Since(start)
}

// await lets virtual time pass.
func await(d time.Duration) { <-time.After(d) }

// B7: a node with 110 idle pods and a healthy stream costs at most 30 runtime
// calls a minute, none of them for one pod.
func TestIdlePodsCostNoCallsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fake.New(fake.Options{Images: []fake.Image{{Ref: "img"}}})
		a := newAgent(t, f, pleg.Options{Streamer: f, QuietPeriod: 5 * time.Second})
		stop := a.run(agentPods(110))
		await(time.Minute)
		all, single := f.CallCount(""), f.CallCount(fake.ContainerStatus)+f.CallCount(fake.PodSandboxStatus)
		await(time.Hour)
		if got := float64(f.CallCount("")-all) / 60; got > 30 {
			t.Errorf("%.1f calls a minute, want at most 30", got)
		}
		if got := f.CallCount(fake.ContainerStatus) + f.CallCount(fake.PodSandboxStatus) - single; got != 0 {
			t.Errorf("%d calls for single pods, want 0", got)
		}
		stop()
	})
}

// BenchmarkIdleCalls counts the calls of TestIdlePodsCostNoCallsOfTheirOwn on a fake clock.
func BenchmarkIdleCalls(b *testing.B) {
	for b.Loop() {
		c := clocktesting.NewFakeClock(time.Now())
		f := fake.New(fake.Options{Images: []fake.Image{{Ref: "img"}}, Clock: c})
		a := newAgent(b, f, pleg.Options{Streamer: f, QuietPeriod: 5 * time.Second, Clock: c})
		stop := a.run(agentPods(110))
		// advance lets virtual time pass; between two steps the machine has time
		// to finish what is due.
		advance := func(d time.Duration) {
			waited, before := 0, f.CallCount(fake.ListContainers)
			for range int(d / time.Second) {
				c.Step(time.Second)
				waited++
				for i := 0; i < 100; i++ {
					if waited >= 5 && i < 10 {
						breathe() // a list is due: a busy machine needs longer
					}
					if n := f.CallCount(fake.ListContainers); n != before {
						waited, before = 0, n
						break
					}
					goruntime.Gosched()
				}
			}
		}
		shown := func() (n int) {
			for _, p := range a.pleg.Dump().Pods {
				if s, err := a.pleg.Get(p.UID); err == nil && s.ContainersRunning() {
					n++
				}
			}
			return n
		}
		for shown() < 110 {
			breathe()
		}
		advance(time.Minute)
		all, single := f.CallCount(""), f.CallCount(fake.ContainerStatus)+f.CallCount(fake.PodSandboxStatus)
		advance(time.Hour)
		b.ReportMetric(float64(f.CallCount("")-all)/60, "calls/min")
		b.ReportMetric(float64(f.CallCount(fake.ContainerStatus)+f.CallCount(fake.PodSandboxStatus)-single)/60, "per-pod-calls/min")
		stop()
	}
}

// BenchmarkEventToSync measures from the moment a container exits to the moment
// its worker holds a status that shows it.
func BenchmarkEventToSync(b *testing.B) {
	f := fake.New(fake.Options{Images: []fake.Image{{Ref: "img"}}})
	a := newAgent(b, f, pleg.Options{Streamer: f})
	seen := make(chan types.UID, 1000)
	a.entered = func(uid types.UID, status *runtime.PodStatus) {
		if len(status.Containers) > 0 && !status.ContainersRunning() {
			seen <- uid
		}
	}
	uids := agentPods(110)
	stop := a.run(uids)
	for _, uid := range uids {
		for f.Running(uid, "c") != 1 {
			breathe()
		}
	}
	var took []time.Duration
	i := 0
	for b.Loop() {
		uid := uids[i%len(uids)]
		i++
		for f.Running(uid, "c") != 1 {
			breathe()
		}
		start := time.Now()
		if err := f.Exit(uid, "c", fake.Exit{}); err != nil {
			b.Fatal(err)
		}
		for got := <-seen; got != uid; got = <-seen {
		}
		took = append(took, time.Since(start))
	}
	stop()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
}

// breathe gives other goroutines 100 microseconds.
func breathe() { <-time.After(100 * time.Microsecond) }
