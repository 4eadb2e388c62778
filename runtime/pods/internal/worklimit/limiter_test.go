package worklimit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/instrument"
	"github.com/podwright/podwright/internal/instrument/instrumenttest"
	"github.com/podwright/podwright/runtime"
)

// limited is a limiter with its measurements, and what its calls do.
type limited struct {
	*Limiter
	meter *instrumenttest.Meter
	wg    sync.WaitGroup

	mu    sync.Mutex
	began []string
	errs  map[string]error
}

func newLimited(limit int) *limited {
	l := &limited{meter: &instrumenttest.Meter{}, errs: map[string]error{}}
	set := instrument.New(l.meter)
	l.Limiter = New(runtimeRules(limit), clock.RealClock{}, Metrics{
		InFlight: set.UpDown("flight", ""), Waiting: set.UpDown("waiting", ""), Taken: set.Counter("taken", ""),
	})
	return l
}

// call makes a call on a goroutine of its own.
func (l *limited) call(ctx context.Context, name string, do func() error) {
	l.wg.Go(func() {
		err := l.Do(ctx, Job{Pod: types.UID(name), Call: "RunPodSandbox", Place: time.Now()}, func() error {
			l.mu.Lock()
			l.began = append(l.began, name)
			l.mu.Unlock()
			return do()
		})
		l.mu.Lock()
		l.errs[name] = err
		l.mu.Unlock()
	})
	synctest.Wait() // so that they come in order
}

func (l *limited) calls() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.began)
}

func (l *limited) want(t *testing.T, values map[string]float64) {
	t.Helper()
	sums := l.meter.Sums()
	for name, v := range values {
		if sums[name] != v {
			t.Errorf("%s is %v, want %v", name, sums[name], v)
		}
	}
}

func hang(ctx context.Context) func() error {
	return func() error { <-ctx.Done(); return ctx.Err() }
}

func takes(d time.Duration) func() error {
	return func() error { <-time.After(d); return nil }
}

// TestOneAtATime: the limit holds while calls are answered.
func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, began := newLimited(1), time.Now()
		for i := range 20 {
			l.call(t.Context(), fmt.Sprint(i), takes(500*time.Millisecond))
		}
		l.want(t, map[string]float64{"flight": 1, "waiting": 19})
		if calls := l.Calls(); len(calls) != 20 || calls[0].Waiting || !calls[19].Waiting || calls[19].Pod != "19" || !calls[19].Since.Equal(began) {
			t.Errorf("calls: %+v", calls)
		}
		l.wg.Wait()
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("20 calls of 500 ms took %v", took)
		}
		l.want(t, map[string]float64{"flight": 0, "waiting": 0, "taken": 0})
		if calls := l.Calls(); calls != nil {
			t.Errorf("calls after the end: %+v", calls)
		}
	})
}

// TestHungCallLosesItsSlot: the next caller proceeds after 2 s, without any other event;
// the hung call is reported as late.
func TestHungCallLosesItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, began := newLimited(2), time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		l.call(ctx, "hung", hang(ctx))
		<-time.After(time.Second)
		l.call(ctx, "hung too", hang(ctx))
		l.call(t.Context(), "good", takes(0))
		<-time.After(time.Second - 1)
		synctest.Wait()
		if calls := l.calls(); slices.Contains(calls, "good") {
			t.Errorf("after %v: %v", time.Since(began), calls)
		}
		<-time.After(1)
		synctest.Wait()
		if calls := l.calls(); !slices.Contains(calls, "good") {
			t.Errorf("after %v: %v", time.Since(began), calls)
		}
		l.want(t, map[string]float64{"flight": 2, "waiting": 0, "taken": 1})
		if calls := l.Calls(); len(calls) != 2 || !calls[0].Late || calls[0].Pod != "hung" || calls[1].Late || !calls[0].Since.Equal(began) {
			t.Errorf("calls: %+v", calls)
		}
		cancel()
		l.wg.Wait()
		l.want(t, map[string]float64{"flight": 0})
	})
}

// TestWaiterLeavesWithItsContext: so does the one that watches the time for the others.
func TestWaiterLeavesWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(1)
		hung, end := context.WithCancel(t.Context())
		l.call(hung, "hung", hang(hung))
		ctx, cancel := context.WithCancel(t.Context())
		l.call(ctx, "first", takes(0))
		l.call(t.Context(), "second", takes(0))
		cancel()
		synctest.Wait()
		l.mu.Lock()
		err := l.errs["first"]
		l.mu.Unlock()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("first: %v", err)
		}
		<-time.After(3 * time.Second)
		synctest.Wait()
		if calls := l.calls(); !slices.Equal(calls, []string{"hung", "second"}) {
			t.Errorf("calls: %v", calls)
		}
		end()
		l.wg.Wait()
	})
}

// TestPanicGivesTheSlotBack: a runtime that panics keeps no other call waiting.
func TestPanicGivesTheSlotBack(t *testing.T) {
	l := newLimited(1)
	func() {
		defer func() { _ = recover() }()
		_ = l.Do(t.Context(), Job{}, func() error { panic("boom") })
	}()
	if err := l.Do(t.Context(), Job{}, func() error { return nil }); err != nil || l.Calls() != nil {
		t.Errorf("after a panic: %v, %v", err, l.Calls())
	}
}

// TestTimedOutCallIsNoAnswer: errors count as answers, but not those of a call that ran out
// of time.
func TestTimedOutCallIsNoAnswer(t *testing.T) {
	for err, answered := range map[error]bool{
		nil: true, errors.New("refused"): true, runtime.ErrDeadline: false, runtime.ErrCanceled: false, context.DeadlineExceeded: false,
	} {
		l := newLimited(1)
		_ = l.Do(t.Context(), Job{}, func() error { return err })
		if got := l.queue.answers[""] != nil; got != answered {
			t.Errorf("%v counts as an answer: %v", err, got)
		}
	}
}

// TestNoTimerPerWaiter: only one of those that wait watches the time, however many wait.
func TestNoTimerPerWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counted := &countedClock{}
		l := &limited{meter: &instrumenttest.Meter{}, errs: map[string]error{}}
		l.Limiter = New(runtimeRules(1), counted, Metrics{})
		ctx, cancel := context.WithCancel(t.Context())
		l.call(ctx, "hung", hang(ctx))
		for i := range 50 {
			l.call(ctx, fmt.Sprint(i), takes(0))
		}
		<-time.After(time.Second)
		synctest.Wait()
		if counted.timers != 1 {
			t.Errorf("%d timers for 50 callers", counted.timers)
		}
		cancel()
		l.wg.Wait()
	})
}

// countedClock counts the timers made.
type countedClock struct {
	clock.RealClock
	timers int
}

func (c *countedClock) NewTimer(d time.Duration) clock.Timer {
	c.timers++
	return c.RealClock.NewTimer(d)
}

// TestNoCallerSleepsThroughItsTurn: with calls that take any time, hang, or are given up while they
// wait, no caller ever waits after its turn has come: each wake-up that is due has come.
func TestNoCallerSleepsThroughItsTurn(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 2))
			l := newLimited(1 + random.IntN(4))
			for i := range 80 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+random.IntN(40))*time.Second)
				defer cancel()
				do := takes(time.Duration(random.IntN(4000)) * time.Millisecond)
				if random.IntN(4) == 0 {
					do = hang(ctx)
				}
				job := Job{Pod: types.UID(fmt.Sprint(i % 9)), Call: fmt.Sprint(i % 3), First: random.IntN(3) == 0, Place: time.Now()}
				l.wg.Go(func() { _ = l.Do(ctx, job, do) })
				<-time.After(time.Duration(random.IntN(1500)) * time.Millisecond)
				synctest.Wait()
				l.Limiter.mu.Lock()
				waits := len(l.queue.waiting) > 0 // otherwise no one needs to watch the time
				if granted, taken := l.queue.Step(time.Now()); waits && len(granted)+taken > 0 {
					t.Errorf("seed %d, %d: %d turns had come, %d slots were lost, and no one saw it", seed, i, len(granted), taken)
				}
				if due, ok := l.queue.Next(); ok && l.due.After(due) {
					t.Errorf("seed %d, %d: the time is watched until %v, and due at %v", seed, i, l.due, due)
				}
				l.Limiter.mu.Unlock()
			}
			l.wg.Wait()
			if left := l.Calls(); left != nil {
				t.Errorf("seed %d: left %v", seed, left)
			}
		})
	}
}
