package syncloop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"

	"github.com/podwright/podwright/internal/problem"
)

// scripted is a source that does what the test says.
type scripted struct {
	name       string
	precedence Precedence
	steps      chan func(ctx context.Context, deliver func(context.Context, []*v1.Pod) error) (bool, error)

	mu   sync.Mutex
	runs []time.Time
}

func newScripted(name string) *scripted {
	return &scripted{
		name: name, precedence: PrecedenceFile,
		steps: make(chan func(context.Context, func(context.Context, []*v1.Pod) error) (bool, error), 100),
	}
}

func (s *scripted) Name() string           { return s.name }
func (s *scripted) Precedence() Precedence { return s.precedence }

func (s *scripted) Run(ctx context.Context, deliver func(context.Context, []*v1.Pod) error) error {
	s.mu.Lock()
	s.runs = append(s.runs, time.Now())
	s.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case step := <-s.steps:
			if end, err := step(ctx, deliver); end {
				return err
			}
		}
	}
}

func (s *scripted) set(pods ...*v1.Pod) {
	s.steps <- func(ctx context.Context, deliver func(context.Context, []*v1.Pod) error) (bool, error) {
		err := deliver(ctx, pods)
		return err != nil, err
	}
}

func (s *scripted) end(err error) {
	s.steps <- func(context.Context, func(context.Context, []*v1.Pod) error) (bool, error) { return true, err }
}

// log collects what happens, safe for concurrent use.
type log struct {
	mu    sync.Mutex
	lines []string
	// hook, if set, is called by Dispatch before it records.
	hook func(Work)
}

func (l *log) Dispatch(w Work) {
	l.mu.Lock()
	hook := l.hook
	l.mu.Unlock()
	if hook != nil {
		hook(w)
	}
	line := w.Kind.String() + " " + string(w.Pod.UID)
	if w.MirrorPod != nil {
		line += " mirror " + string(w.MirrorPod.UID)
	}
	l.add(line)
}

func (l *log) Eventf(_ apiruntime.Object, eventtype, reason, format string, args ...any) {
	l.add(eventtype + " " + reason + ": " + fmt.Sprintf(format, args...))
}

func (l *log) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *log) on(hook func(Work)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hook = hook
}

// take returns what happened since the last take.
func (l *log) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return slices.Clone(lines)
}

// want waits until all goroutines wait, and compares what happened.
func (l *log) want(t *testing.T, what string, lines ...string) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(lines, l.take(), cmp.Transformer("nil", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// eventSet is an Events for tests.
type eventSet struct {
	mu    sync.Mutex
	ready chan struct{}
	uids  []types.UID
}

func newEventSet() *eventSet { return &eventSet{ready: make(chan struct{}, 1)} }

func (e *eventSet) Ready() <-chan struct{} { return e.ready }

func (e *eventSet) Take() []types.UID {
	e.mu.Lock()
	defer e.mu.Unlock()
	uids := e.uids
	e.uids = nil
	return uids
}

func (e *eventSet) add(uids ...types.UID) {
	e.mu.Lock()
	e.uids = append(e.uids, uids...)
	e.mu.Unlock()
	select {
	case e.ready <- struct{}{}:
	default:
	}
}

// pass waits in virtual time.
func pass(d time.Duration) { <-time.After(d) }

// run starts a loop in a bubble and returns it with a function that stops it and
// returns Run's error.
func run(t *testing.T, l *log, options Options) (*Loop, func() error) {
	t.Helper()
	loop, err := New(l.Dispatch, options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- loop.Run(ctx) }()
	return loop, func() error {
		cancel()
		return <-done
	}
}

func TestHandlers(t *testing.T) { // section 10
	synctest.Test(t, func(t *testing.T) {
		source, l := newScripted("api"), &log{}
		events := newEventSet()
		loop, stop := run(t, l, Options{Sources: []Source{source}, Changes: events})
		defer stop()

		source.set()
		l.want(t, "an empty first set")
		if !loop.Ready() {
			t.Error("not ready after the first set (R1)")
		}
		source.set(newPod("b", "b", created(start)), newPod("a", "a", created(start)), newPod("old", "old", created(start.Add(-time.Hour))), newPod("unset", "unset"))
		l.want(t, "ADD comes oldest first, then by UID", "create unset", "create old", "create a", "create b")

		source.set(newPod("a", "a", image("app:2")), newPod("b", "b", deleted))
		l.want(t, "REMOVE, DELETE, UPDATE (B3)", "kill old", "kill unset", "update b", "update a")
		if _, ok := loop.Store().Get("old"); ok {
			t.Error("a removed pod is still desired")
		}

		source.set(newPod("a", "a", image("app:2"), phase(v1.PodRunning)), newPod("b", "b", deleted))
		l.want(t, "RECONCILE without readiness gates")
		gated := func(p *v1.Pod) { p.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "x"}} }
		source.set(newPod("a", "a", gated))
		l.want(t, "gates added", "kill b", "update a")
		source.set(newPod("a", "a", gated, phase(v1.PodRunning)))
		l.want(t, "RECONCILE with readiness gates", "sync a")

		events.add("a", "stranger", "b")
		l.want(t, "SYNC is for desired pods only (PE1, PR4)", "sync a")
	})
}

func TestMirrorPods(t *testing.T) { // section 10, MC5, PM2, SI6, edge 22
	synctest.Test(t, func(t *testing.T) {
		api, file, l := newScripted("api"), newScripted("file"), &log{}
		api.precedence = PrecedenceAPI
		events := newEventSet()
		loop, stop := run(t, l, Options{Sources: []Source{api, file}, Changes: events})
		defer stop()
		mirror := func(edits ...func(*v1.Pod)) *v1.Pod {
			return newPod("m", "web", append(edits, annotated(podinfo.AnnotationMirror, "hash"))...)
		}

		api.set(mirror())
		l.want(t, "a mirror before its static pod has no effect")
		file.set(newPod("s", "web"))
		l.want(t, "the static pod finds it, and does not compete with it", "create s mirror m")
		api.set(mirror(image("app:2")))
		l.want(t, "a change of the mirror", "update s mirror m")
		api.set(mirror(image("app:2"), phase(v1.PodRunning)))
		l.want(t, "its status is ours")
		events.add("m", "s")
		l.want(t, "a mirror is never synced", "sync s mirror m")
		api.set()
		l.want(t, "a mirror that goes stops nothing", "update s")
		api.set(mirror())
		l.want(t, "and comes back", "update s mirror m")
		file.set()
		l.want(t, "the static pod goes", "kill s")
		if pods, mirrors := loop.Store().Pods(), loop.Store().Mirrors(); len(pods) != 0 || len(mirrors) != 1 {
			t.Errorf("%d pods, %d mirrors", len(pods), len(mirrors))
		}
	})
}

func TestRemovalBeforeReady(t *testing.T) { // R3, B7, SI4, edge 17
	synctest.Test(t, func(t *testing.T) {
		one, two, l := newScripted("one"), newScripted("two"), &log{}
		loop, stop := run(t, l, Options{Sources: []Source{one, two}})
		defer stop()
		one.set(newPod("a", "a"), newPod("b", "b"), newPod("c", "c"))
		l.want(t, "pods start before all sources are seen", "create a", "create b", "create c")
		one.set(newPod("c", "c"))
		l.want(t, "no removal while a source is missing")
		one.set(newPod("b", "b"), newPod("c", "c"))
		l.want(t, "a pod that comes back is wanted", "create b")
		if loop.Ready() || loop.Sources()[0].Ready == loop.Sources()[1].Ready {
			t.Errorf("one of two sources is ready: %+v", loop.Sources())
		}
		two.set()
		l.want(t, "the removal is executed when the last source is seen, once", "kill a")
		select {
		case <-loop.ReadyC():
		default:
			t.Error("ReadyC is open")
		}
		two.set()
		one.set(newPod("c", "c"))
		l.want(t, "from now on at once", "kill b")
	})
}

func TestGateHoldsSetupOnly(t *testing.T) { // B2 instead of L1, edge 24
	synctest.Test(t, func(t *testing.T) {
		source, l := newScripted("file"), &log{}
		var mu sync.Mutex
		closed := errors.New("runtime is down")
		gate := func(err error) {
			mu.Lock()
			defer mu.Unlock()
			closed = err
		}
		events := newEventSet()
		loop, stop := run(t, l, Options{Sources: []Source{source}, Changes: events, Gate: func() error {
			mu.Lock()
			defer mu.Unlock()
			return closed
		}})
		defer stop()

		source.set(newPod("a", "a"), newPod("b", "b"), newPod("c", "c"), newPod("d", "d", deleted))
		l.want(t, "terminating pods pass", "create d")
		if diff := cmp.Diff([]types.UID{"a", "b", "c"}, loop.heldPods()); diff != "" {
			t.Errorf("held (-want +got):\n%s", diff)
		}
		events.add("a")
		source.set(newPod("a", "a", image("app:2")), newPod("b", "b", deleted), newPod("d", "d", deleted))
		l.want(t, "deletion and removal pass", "kill c", "create b")
		if !loop.Holds("a") || loop.Holds("b") {
			t.Errorf("Holds says a %v, b %v", loop.Holds("a"), loop.Holds("b"))
		}
		if diff := cmp.Diff([]types.UID{"a"}, loop.heldPods()); diff != "" {
			t.Errorf("held (-want +got):\n%s", diff)
		}
		pass(40 * time.Second)
		l.want(t, "still closed")
		gate(nil)
		pass(retryMax)
		l.want(t, "what was held goes once, with its strongest reason", "create a")
		if got := loop.heldPods(); len(got) != 0 {
			t.Errorf("held after the gate opened: %v", got)
		}
		gate(closed)
		gate(errors.New("again"))
		source.set(newPod("a", "a", image("app:3")))
		l.want(t, "closed again", "kill b", "kill d")
		gate(nil)
		source.set(newPod("a", "a", image("app:3")), newPod("e", "e"))
		synctest.Wait()
		got := l.take()
		slices.Sort(got)
		if diff := cmp.Diff([]string{"create e", "update a"}, got); diff != "" {
			t.Errorf("new work shows that the gate is open, the rest follows at once (-want +got):\n%s", diff)
		}
	})
}

func TestGateChangedSetsUpHeldPodsAtOnce(t *testing.T) { // B2
	synctest.Test(t, func(t *testing.T) {
		source, l := newScripted("file"), &log{}
		var open atomic.Bool
		loop, stop := run(t, l, Options{Sources: []Source{source}, Gate: func() error {
			if open.Load() {
				return nil
			}
			return errors.New("closed")
		}})
		defer stop()

		loop.GateChanged()
		source.set(newPod("a", "a"))
		pass(time.Minute)
		loop.GateChanged()
		l.want(t, "the gate is still closed")
		if got := loop.heldPods(); len(got) != 1 {
			t.Errorf("held: %v", got)
		}
		open.Store(true)
		loop.GateChanged()
		l.want(t, "in the same moment", "create a")
	})
}

func TestDispatcherPanic(t *testing.T) { // B9, SI9
	synctest.Test(t, func(t *testing.T) {
		source, l := newScripted("file"), &log{}
		loop, stop := run(t, l, Options{Sources: []Source{source}})
		defer stop()
		tries := 0
		l.on(func(w Work) {
			if w.Pod.UID == "bad" {
				if tries++; tries < 3 {
					panic("dispatcher bug")
				}
			}
		})
		source.set(newPod("a", "a"), newPod("bad", "bad"), newPod("c", "c"))
		l.want(t, "the others go on", "create a", "create c")
		if diff := cmp.Diff([]types.UID{"bad"}, loop.heldPods()); diff != "" {
			t.Errorf("held (-want +got):\n%s", diff)
		}
		pass(retryMin)
		l.want(t, "second try, panics")
		source.set(newPod("a", "a"), newPod("c", "c"), newPod("bad", "bad", image("app:2")))
		l.want(t, "newer work takes its place and keeps its kind", "create bad")
	})
}

func TestSyncIsRetried(t *testing.T) { // B9
	synctest.Test(t, func(t *testing.T) {
		source, l := newScripted("file"), &log{}
		events := newEventSet()
		_, stop := run(t, l, Options{Sources: []Source{source}, Changes: events})
		defer stop()
		source.set(newPod("a", "a"))
		l.want(t, "start", "create a")
		l.on(func(Work) { panic("dispatcher bug") })
		events.add("a")
		synctest.Wait()
		l.on(nil)
		pass(retryMin)
		l.want(t, "a sync that panicked comes again", "sync a")
		pass(time.Minute)
		l.want(t, "once")
	})
}

// TestKillIsNeverLost: a removal whose dispatch panicked comes before the new life
// of the same UID.
func TestKillIsNeverLost(t *testing.T) { // B9, SI10
	synctest.Test(t, func(t *testing.T) {
		source, l := newScripted("file"), &log{}
		_, stop := run(t, l, Options{Sources: []Source{source}})
		defer stop()
		source.set(newPod("a", "a"))
		l.want(t, "start", "create a")
		l.on(func(Work) { panic("dispatcher bug") })
		source.set()
		source.set(newPod("a", "a"))
		l.want(t, "nothing gets through")
		l.on(nil)
		pass(retryMax)
		l.want(t, "in order", "kill a", "create a")
	})
}

func TestSourceFailures(t *testing.T) { // SRC4, edge 16, section 2 (back-off), B1
	synctest.Test(t, func(t *testing.T) {
		source, l := newScripted("api"), &log{}
		loop, stop := run(t, l, Options{Sources: []Source{source}})
		defer stop()
		begin := time.Now()
		broken := errors.New("watch broke")
		for range 7 {
			source.end(broken)
		}
		pass(time.Minute)
		synctest.Wait()
		var got []time.Duration
		source.mu.Lock()
		for _, at := range source.runs {
			got = append(got, at.Sub(begin))
		}
		source.mu.Unlock()
		want := []time.Duration{0, 1 * time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second, 31 * time.Second, 51 * time.Second}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("runs (-want +got):\n%s", diff)
		}
		if s := loop.Sources()[0]; !errors.Is(s.RunError, broken) || s.Seen {
			t.Errorf("status %+v", s)
		}
		pass(11 * time.Second) // the seventh failure's pause is over
		source.set(newPod("a", "a"))
		l.want(t, "it recovers", "create a")
		source.steps <- func(context.Context, func(context.Context, []*v1.Pod) error) (bool, error) { panic("source bug") }
		l.want(t, "a panic removes nothing")
		if s := loop.Sources()[0]; s.RunError == nil || !strings.Contains(s.RunError.Error(), "source bug") {
			t.Errorf("status %+v", s)
		}
		pass(time.Second) // the back-off began again with the delivery
		source.set(newPod("a", "a"), newPod("b", "b"))
		l.want(t, "it goes on", "create b")
		if s := loop.Sources()[0]; s.RunError != nil || s.Pods != 2 {
			t.Errorf("status %+v", s)
		}
		for range 40 {
			source.end(broken)
		}
		pass(10 * time.Minute)
		l.want(t, "ten minutes of failures remove nothing")
		for len(source.steps) > 0 {
			pass(time.Minute)
		}
		source.set(newPod("b", "b"))
		pass(time.Minute)
		l.want(t, "one pod less is one removal", "kill a")
		source.set(newPod("b", "b"))
		l.want(t, "exactly one")
	})
}

func TestRunEnds(t *testing.T) { // B1, L4, P3
	t.Run("when all sources closed and all is handled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			one, two, l := newScripted("one"), newScripted("two"), &log{}
			loop, err := New(l.Dispatch, Options{Sources: []Source{one, two}})
			if err != nil {
				t.Fatal(err)
			}
			one.set(newPod("a", "a"))
			one.end(nil)
			two.end(nil)
			if err := loop.Run(t.Context()); err != nil {
				t.Errorf("Run: %v", err)
			}
			l.want(t, "pods stay", "create a")
			if !loop.Ready() {
				t.Error("a source that closed without a word keeps the loop from being ready")
			}
			if err := loop.Run(t.Context()); !errors.Is(err, errRunning) {
				t.Errorf("second Run: %v", err)
			}
		})
	})
	t.Run("when its context ends, with the cause", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			loop, err := New((&log{}).Dispatch, Options{Sources: []Source{newScripted("one")}})
			if err != nil {
				t.Fatal(err)
			}
			cause := errors.New("node goes down")
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(cause)
			if err := loop.Run(ctx); !errors.Is(err, cause) {
				t.Errorf("Run: %v", err)
			}
		})
	})
}

// TestDeliveryEndsWithTheLoop: a source that delivers under its own context cannot keep Run from
// returning.
func TestDeliveryEndsWithTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, l := newScripted("file"), &log{}
		release := make(chan struct{})
		l.on(func(Work) { <-release })
		_, stop := run(t, l, Options{Sources: []Source{source}})
		var last error
		done := make(chan struct{})
		source.steps <- func(_ context.Context, deliver func(context.Context, []*v1.Pod) error) (bool, error) {
			defer close(done)
			for n := 0; last == nil; n++ {
				last = deliver(context.Background(), []*v1.Pod{newPod("a", "a", image(fmt.Sprint("app:", n)))})
			}
			return true, last
		}
		synctest.Wait() // the queue is full, the loop is stuck in a handler
		ended := make(chan error)
		go func() { ended <- stop() }()
		<-done
		if !errors.Is(last, context.Canceled) {
			t.Errorf("deliver: %v", last)
		}
		close(release)
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestNewListsAllProblems(t *testing.T) { // M1, edge 33
	_, err := New(nil, Options{
		Sources:    []Source{newScripted("a"), newScripted(" "), nil, newScripted("a")},
		StuckAfter: -1,
	})
	for _, want := range []string{"dispatch is nil", "source 1: it has no name", "source 2: it is nil", `two sources are called "a"`, "negative"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}

func TestNoSourceIsReady(t *testing.T) { // R2
	loop, err := New((&log{}).Dispatch, Options{})
	if err != nil || !loop.Ready() {
		t.Fatalf("ready %v, error %v", loop.Ready(), err)
	}
	<-loop.ReadyC()
}

func TestHealthy(t *testing.T) { // L2, L6, edge 31
	synctest.Test(t, func(t *testing.T) {
		source, l := newScripted("file"), &log{}
		loop, err := New(l.Dispatch, Options{Sources: []Source{source}})
		if err != nil {
			t.Fatal(err)
		}
		if err := problem.Health(loop.Problems()); err != nil {
			t.Errorf("before the first iteration: %v", err)
		}
		release := make(chan struct{})
		l.on(func(Work) { <-release })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- loop.Run(ctx) }()
		pass(time.Hour)
		if err := problem.Health(loop.Problems()); err != nil {
			t.Errorf("idle for an hour: %v", err)
		}
		source.set(newPod("a", "a"))
		pass(5 * time.Minute)
		if err := problem.Health(loop.Problems()); err != nil {
			t.Errorf("busy for exactly 5 minutes: %v", err)
		}
		pass(time.Minute)
		if err := problem.Health(loop.Problems()); err == nil || !strings.Contains(err.Error(), "loop sync loop: since 2000-01-01T01:00:00Z waits") {
			t.Errorf("stuck for 6 minutes: %v", err)
		}
		close(release)
		synctest.Wait()
		if err := problem.Health(loop.Problems()); err != nil {
			t.Errorf("after the handler returned: %v", err)
		}
		cancel()
		<-done
	})
}

// TestBackPressure: a slow loop blocks sources and loses nothing; a source that gives up
// has changed nothing (M2, P1).
func TestBackPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		loop, err := New(l.Dispatch, Options{Sources: []Source{newScripted("file")}})
		if err != nil {
			t.Fatal(err)
		}
		deliver := func(ctx context.Context, n int) error {
			return loop.mux.deliver(ctx, "file", []*v1.Pod{newPod("a", "a", image(fmt.Sprint("app:", n)))})
		}
		for n := range queueCapacity { // no reader yet
			if err := deliver(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if err := deliver(ctx, 1000); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a full queue: %v", err)
		}
		cancel()
		blocked := make(chan error, 1)
		go func() { blocked <- deliver(t.Context(), 2000) }()
		synctest.Wait()
		select {
		case err := <-blocked:
			t.Errorf("deliver returned %v with a full queue", err)
		default:
		}
		ctx, cancel = context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- loop.Run(ctx) }()
		if err := <-blocked; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if got := len(l.take()); got != queueCapacity+1 {
			t.Errorf("%d operations, want %d", got, queueCapacity+1)
		}
		pod, _ := loop.Store().Get("a")
		if pod.Spec.Containers[0].Image != "app:2000" {
			t.Errorf("the last accepted set is %s", pod.Spec.Containers[0].Image)
		}
		cancel()
		<-done
	})
}
