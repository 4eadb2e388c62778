package pleg

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/runtime"
)

// eventLog records events.
type eventLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *eventLog) Eventf(_ apiruntime.Object, eventtype, reason, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, eventtype+" "+reason+" "+fmt.Sprintf(format, args...))
}

func manyPods(n int) func(*bench) {
	return func(b *bench) {
		for i := range n {
			b.pod(types.UID(fmt.Sprintf("p%03d", i)), "c")
		}
	}
}

// Edge case 21, R4, H4, B2, B3, B5, PI14: one inspection that hangs, without end or until
// its context ends, while 99 other pods keep changing. They are published at
// once; health names the hung pod and stays good; its own entry keeps its status
// and does not pretend to be fresh.
func TestHungInspectionHoldsUpNoOtherPod(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprintf("deaf=%v", deaf), func(t *testing.T) {
			log := &eventLog{}
			inBubble(t, Options{Recorder: log, ConfirmVanished: -1}, manyPods(100), func(b *bench) {
				release := make(chan struct{})
				b.fail(hanging("ContainerStatus", "p042", deaf, release))
				hungSince := b.Stamp()
				b.container("p042", "c", sExited)
				for round := range 120 {
					state := sExited
					if round%2 == 1 {
						state = sRunning
					}
					after := b.Stamp()
					for i := range 100 {
						if i != 42 {
							b.container(types.UID(fmt.Sprintf("p%03d", i)), "c", state)
						}
					}
					pass(1100 * time.Millisecond)
					synctest.Wait()
					if got := len(b.sub.Take()); got != 99 {
						b.t.Fatalf("round %d: %d pods changed, want 99", round, got)
					}
					if !b.isFresh("p000", after) {
						b.t.Fatalf("round %d: p000 is not fresh", round)
					}
				}
				if err := b.Health().Err; err != nil {
					b.t.Errorf("B5: hung inspections close the gate: %v", err)
				}
				h := b.Health()
				if len(h.Hung) != 1 || h.Hung[0].UID != "p042" || h.Hung[0].Name != "pod-p042" {
					b.t.Errorf("health: %+v", h)
				}
				if s, err := b.Get("p042"); err != nil || !s.ContainersRunning() {
					b.t.Errorf("entry of the hung pod: %v, %v; want the old status", statesOf(s), err)
				}
				if b.isFresh("p042", hungSince) {
					b.t.Error("the hung pod looks fresh")
				}
				if b.Dump().Pods[42].Outstanding == "" {
					b.t.Error("dump does not say that the pod is outstanding")
				}
				tries := b.count("ContainerStatus p042/c") - 1
				if want := 8; !deaf && (tries < 6 || tries > want) {
					b.t.Errorf("%d tries in 132 s, want back-off 1, 2, 4 ... 60 s", tries)
				}
				if deaf && (tries > maxLostPerPod || h.WrittenOff != maxLostPerPod) {
					b.t.Errorf("%d tries, %d written off; want %d of each", tries, h.WrittenOff, maxLostPerPod)
				}
				if n := len(log.lines); n < 1 || n > 3 || !strings.Contains(log.lines[0], "Warning InspectionTimedOut") {
					b.t.Errorf("B3: events %q, want at most one a minute", log.lines)
				}
				if deaf {
					// ReadNow must not make it worse, nor wait.
					start := time.Now()
					if _, err := b.ReadNow(b.t.Context(), "p042"); !errors.Is(err, runtime.ErrDeadline) || time.Since(start) != 0 {
						b.t.Errorf("ReadNow of the hung pod: %v after %v", err, time.Since(start))
					}
				}
				close(release)
				b.fail(nil)
				pass(62 * time.Second)
				b.expect("recovered", "p042: Died [p042/c]")
				if h := b.Health(); len(h.Hung) != 0 || h.WrittenOff != 0 {
					b.t.Errorf("health after recovery: %+v", h)
				}
			})
		})
	}
}

// Edge case 22, B1, B4, IN2: as many deaf calls as there are places. Each keeps its place for
// 0.5 s; then other pods continue, however many calls are written off; when the calls return,
// everything is normal again.
func TestDeafCallsGiveTheirPlacesBack(t *testing.T) {
	inBubble(t, Options{Inspections: 2}, manyPods(10), func(b *bench) {
		release := make(chan struct{})
		b.fail(func(ctx context.Context, method, id string) error {
			if id == "p000/c" || id == "p001/c" {
				return hanging(method, id, true, release)(ctx, method, id)
			}
			return nil
		})
		for i := range 10 {
			b.container(types.UID(fmt.Sprintf("p%03d", i)), "c", sExited)
		}
		pass(1400 * time.Millisecond) // a relist, and nothing more
		b.expect("places taken")
		pass(200 * time.Millisecond)
		if got := len(b.sub.Take()); got != 8 {
			b.t.Errorf("B1: %d other pods are read", got)
		}
		pass(30 * time.Second)
		if h := b.Health(); h.WrittenOff != 2 || b.Health().Err != nil {
			b.t.Errorf("health: %+v", h)
		}
		if _, err := b.ReadNow(b.t.Context(), "p007"); err != nil {
			b.t.Errorf("ReadNow of another pod: %v", err)
		}
		close(release)
		b.fail(nil)
		pass(70 * time.Second)
		if got := len(b.sub.Take()); got != 2 {
			b.t.Errorf("%d pods read after the calls returned, want 2", got)
		}
	})
}

// B1, IN1: the runtime does not answer about half of 1,000 pods; the others are read at once.
func TestHungReadingsDelayNoOther(t *testing.T) {
	const n = 1000
	inBubble(t, Options{}, manyPods(n), func(b *bench) {
		b.fail(func(ctx context.Context, method, id string) error {
			if method == "ContainerStatus" && id < "p500" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		for i := range n {
			b.container(types.UID(fmt.Sprintf("p%03d", i)), "c", sExited)
		}
		pass(4 * time.Second)
		if got := len(b.sub.Take()); got != n/2 {
			b.t.Errorf("%d pods are read, want %d", got, n/2)
		}
		if err := b.Health().Err; err != nil {
			b.t.Errorf("health: %v", err)
		}
	})
}

// B4, IN2: a runtime ignores the end of the context for ninety of a hundred pods, for an hour. The
// others are read as soon as they change, each deaf pod costs two calls at most, and all are read once the
// runtime answers.
func TestDeafPodsDelayNoOther(t *testing.T) {
	const n, deaf = 100, 90
	inBubble(t, Options{}, manyPods(n), func(b *bench) {
		release := make(chan struct{})
		b.fail(func(ctx context.Context, method, id string) error {
			if method == "ContainerStatus" && id < fmt.Sprintf("p%03d", deaf) {
				return hanging(method, id, true, release)(ctx, method, id)
			}
			return nil
		})
		change := func(from, to int, state runtimeapi.ContainerState) {
			for i := from; i < to; i++ {
				b.container(types.UID(fmt.Sprintf("p%03d", i)), "c", state)
			}
		}
		change(0, deaf, sExited)
		for round := range 60 {
			pass(time.Minute)
			b.sub.Take()
			change(deaf, n, []runtimeapi.ContainerState{sExited, sRunning}[round%2])
			pass(2 * time.Second)
			if got := len(b.sub.Take()); got != n-deaf {
				b.t.Fatalf("minute %d: %d pods are read, want %d", round, got, n-deaf)
			}
		}
		if h := b.Health(); h.WrittenOff > maxLostPerPod*deaf || len(h.Hung) != deaf {
			b.t.Errorf("%d written off, %d hung", h.WrittenOff, len(h.Hung))
		}
		close(release)
		b.fail(nil)
		pass(62 * time.Second)
		if h := b.Health(); h.WrittenOff != 0 || len(h.Hung) != 0 {
			b.t.Errorf("after the hour: %+v", h)
		}
	})
}

// B1: inspections run side by side up to the bound; 1 is the kubelet's order.
func TestInspectionsAreBounded(t *testing.T) {
	for _, limit := range []int{1, 3, 8} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, Options{Inspections: limit})
				manyPods(20)(b)
				var mu sync.Mutex
				now, most := 0, 0
				var order []string
				b.fail(func(_ context.Context, method, id string) error {
					if method != "ContainerStatus" {
						return nil
					}
					mu.Lock()
					now++
					most = max(most, now)
					order = append(order, id)
					mu.Unlock()
					pass(100 * time.Millisecond)
					mu.Lock()
					now--
					mu.Unlock()
					return nil
				})
				start := time.Now()
				b.relist()
				if most != limit {
					t.Errorf("%d at a time, want %d", most, limit)
				}
				if want := time.Duration((20+limit-1)/limit) * 100 * time.Millisecond; time.Since(start) != want {
					t.Errorf("took %v, want %v", time.Since(start), want)
				}
				if limit == 1 && order[7] != "p007/c" {
					t.Errorf("order %v", order)
				}
			})
		})
	}
}

// Edge case 31: an agent restart with 300 running pods.
func TestRestartWithManyPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		manyPods(300)(b)
		b.fail(func(_ context.Context, method, _ string) error {
			if method == "ContainerStatus" {
				pass(20 * time.Millisecond)
			}
			return nil
		})
		if b.Synced() {
			t.Error("synced before the first relist")
		}
		stop := b.run()
		pass(700 * time.Millisecond)
		if b.Synced() {
			t.Error("synced before every pod was read")
		}
		pass(100 * time.Millisecond)
		if !b.Synced() || len(b.sub.Take()) != 300 {
			t.Error("not synced after 300 / 8 inspections of 20 ms")
		}
		stop()
	})
}

// H1, H2, H3, B5, edge cases 10 and 11: health from never run to failing and back;
// waiters are released with the next success.
func TestHealthFollowsTheLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.pod("p", "c")
		boom := errors.New("boom")
		b.fail(failing("ListPodSandbox", "", boom))
		if err := b.Health().Err; !errors.Is(err, errNeverListed) || !strings.Contains(err.Error(), "has yet to be successful") {
			t.Errorf("11: %v", err)
		}
		stop := b.run()
		pass(2500 * time.Millisecond)
		if err := b.Health().Err; !errors.Is(err, errNeverListed) || !errors.Is(err, boom) {
			t.Errorf("11: %v", err)
		}
		if b.isFresh("p", 0) || b.Synced() {
			t.Error("11: fresh before the first relist")
		}
		b.fail(nil)
		pass(time.Second)
		if err := b.Health().Err; err != nil {
			t.Errorf("listed: %v", err)
		}
		b.fail(failing("ListPodSandbox", "", boom))
		after := b.Stamp()
		released := make(chan time.Time, 1)
		go func() {
			if _, err := b.GetNewerThan(t.Context(), "p", after); err != nil {
				t.Error(err)
			}
			released <- time.Now()
		}()
		pass(3*time.Minute - 600*time.Millisecond)
		if err := b.Health().Err; err != nil {
			t.Errorf("below the threshold: %v", err)
		}
		pass(time.Second)
		err := b.Health().Err
		if !errors.Is(err, errListFailing) || !errors.Is(err, boom) || !strings.Contains(err.Error(), "3m0s") {
			t.Errorf("10: %v", err)
		}
		b.fail(nil)
		pass(time.Second)
		if err := b.Health().Err; err != nil || len(released) != 1 {
			t.Errorf("10: after success: %v, released %d", err, len(released))
		}
		stop()
	})
}

// B3, H2: lists that hang until their time limit, or beyond it, make health say
// slow or failing, start no more than two calls, and heal.
func TestHungListsAreUnhealthyAndBounded(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprintf("deaf=%v", deaf), func(t *testing.T) {
			inBubble(t, Options{}, func(b *bench) { b.pod("p", "c") }, func(b *bench) {
				release := make(chan struct{})
				calls := b.count("ListContainers")
				b.fail(hanging("ListContainers", "", deaf, release))
				pass(4 * time.Minute)
				if err := b.Health().Err; err == nil || !errors.Is(err, runtime.ErrDeadline) {
					b.t.Errorf("health: %v", err)
				}
				if n := b.count("ListContainers") - calls; deaf && n != maxLostLists || !deaf && (n < 7 || n > 8) {
					b.t.Errorf("%d list calls in 4 minutes", n)
				}
				b.fail(nil)
				close(release)
				pass(32 * time.Second)
				if err := b.Health().Err; err != nil {
					b.t.Errorf("healed: %v", err)
				}
			})
		})
	}
	t.Run("slow", func(t *testing.T) {
		inBubble(t, Options{ListTimeout: time.Hour}, nil, func(b *bench) {
			b.fail(hanging("ListContainers", "", false, nil))
			pass(4 * time.Minute)
			if err := b.Health().Err; !errors.Is(err, errListSlow) {
				b.t.Errorf("health: %v", err)
			}
		})
	})
}

// PI15: stop waits for calls that obey, writes off those that do not, and leaves
// nothing else (goleak watches).
func TestStopWaitsForCallsThatObey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		manyPods(3)(b)
		release := make(chan struct{})
		b.fail(func(ctx context.Context, method, id string) error {
			if id == "p001/c" {
				return hanging(method, id, true, release)(ctx, method, id)
			}
			return hanging(method, "p002/c", false, nil)(ctx, method, id)
		})
		stop := b.run()
		synctest.Wait()
		if err := b.Run(t.Context()); !errors.Is(err, errRunning) {
			t.Errorf("second Run: %v", err)
		}
		start := time.Now()
		stop()
		if took := time.Since(start); took != 30*time.Second {
			t.Errorf("stop took %v, want the 30 s of a deaf call", took)
		}
		if h := b.Health(); h.WrittenOff != 1 {
			t.Errorf("health: %+v", h)
		}
		if _, err := b.Get("p002"); !errors.Is(err, ErrNotRead) {
			t.Errorf("a reading cut short by the stop is an error of the pod: %v", err)
		}
		close(release)
		synctest.Wait()
		if h := b.Health(); h.WrittenOff != 0 {
			t.Errorf("after its return: %+v", h)
		}
		b.fail(nil)
		b.events()
		b.relist() // manual mode takes up what the stop interrupted
		b.expect("after stop", "p001: Started", "p002: Started")
	})
}

// R2: the period counts from the end of a relist.
func TestPeriodCountsFromTheEndOfARelist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		var starts []time.Duration
		begin := time.Now()
		b.fail(func(_ context.Context, method, _ string) error {
			if method == "ListPodSandbox" {
				starts = append(starts, time.Since(begin))
				pass(300 * time.Millisecond)
			}
			return nil
		})
		stop := b.run()
		pass(3 * time.Second)
		stop()
		if want := "[0s 1.3s 2.6s]"; fmt.Sprint(starts) != want {
			t.Errorf("relists began at %v, want %s", starts, want)
		}
	})
}

// B10 with Run: Relist makes one due at once and waits for it.
func TestRelistIsDueAtOnceWhileRunning(t *testing.T) {
	inBubble(t, Options{}, func(b *bench) { b.pod("p", "c") }, func(b *bench) {
		b.container("p", "c", sExited)
		start := time.Now()
		b.relist()
		if time.Since(start) != 0 {
			b.t.Errorf("took %v", time.Since(start))
		}
		b.expect("relist", "p: Died [p/c]")
		boom := errors.New("boom")
		b.fail(failing("ListPodSandbox", "", boom))
		if err := b.Relist(b.t.Context()); !errors.Is(err, boom) {
			b.t.Errorf("Relist: %v", err)
		}
		b.fail(hanging("ListPodSandbox", "", false, nil))
		if err := b.Relist(ctxFor(b.t, time.Second)); !errors.Is(err, context.DeadlineExceeded) {
			b.t.Errorf("Relist: %v", err)
		}
	})
}

// steppedClock is a real clock whose wall time jumps; its timers do not.
type steppedClock struct {
	clock.RealClock
	mu   sync.Mutex
	step time.Duration
}

func (c *steppedClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.step).Round(0) // without the monotonic part
}

func (c *steppedClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// Edge case 30, PI8: steps of the wall clock change neither order nor freshness
// nor, backwards, health.
func TestClockStepsChangeNothing(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, -10 * 365 * 24 * time.Hour, 10 * 365 * 24 * time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			c := &steppedClock{}
			inBubble(t, Options{Clock: c}, func(b *bench) { b.pod("p", "c") }, func(b *bench) {
				global, after := b.Dump().Global, b.Stamp()
				c.mu.Lock()
				c.step = step
				c.mu.Unlock()
				if err := b.Health().Err; step < 0 && err != nil {
					b.t.Errorf("health after the step: %v", err)
				}
				b.container("p", "c", sExited)
				start := time.Now()
				if s, err := b.GetNewerThan(b.t.Context(), "p", after); err != nil || s.ContainersRunning() {
					b.t.Errorf("GetNewerThan: %v, %v", s, err)
				}
				if took := time.Since(start); took != time.Second {
					b.t.Errorf("relist after %v, want 1 s", took)
				}
				if b.Dump().Global <= global {
					b.t.Error("T went back")
				}
				if err := b.Health().Err; err != nil {
					b.t.Errorf("health after a relist: %v", err)
				}
			})
		})
	}
}

// Options: every problem is reported at once, none panics.
func TestNewReportsEveryProblem(t *testing.T) {
	_, err := New(nil, Options{Period: -1, Inspections: -2, QuietPeriod: time.Minute, InspectTimeout: time.Hour, WriteOffAfter: time.Second})
	for _, want := range []string{"reader", "Period", "Inspections", "QuietPeriod", "WriteOffAfter"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}

// badRecorder panics.
type badRecorder struct{}

func (badRecorder) Eventf(apiruntime.Object, string, string, string, ...any) { panic("no such pod") }

// B2, B3: a recorder that panics harms no reading.
func TestRecorderThatPanicsHarmsNothing(t *testing.T) {
	inBubble(t, Options{Recorder: badRecorder{}}, func(b *bench) { b.pod("p", "c") }, func(b *bench) {
		b.fail(hanging("ContainerStatus", "p", false, nil))
		b.container("p", "c", sExited)
		pass(11500 * time.Millisecond)
		b.fail(nil)
		pass(3 * time.Second)
		b.expect("read again", "p: Died [p/c]")
	})
}
