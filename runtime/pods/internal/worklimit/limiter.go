package worklimit

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// Metrics are what a Limiter measures. Each may be nil.
type Metrics struct {
	// InFlight are calls made and not answered, Waiting those that wait for their turn.
	InFlight, Waiting metric.Int64UpDownCounter
	// Taken counts slots taken from calls that were unanswered for too long.
	Taken metric.Int64Counter
}

// Limiter lets calls be made as its rules say. It is safe for concurrent use.
type Limiter struct {
	clock   clock.Clock
	metrics Metrics

	mu    sync.Mutex // never held during a call
	queue *Queue
	// watcher is the turn that watches the time, until due.
	watcher *Turn
	due     time.Time
}

// New returns a limiter.
func New(rules Rules, c clock.Clock, metrics Metrics) *Limiter {
	return &Limiter{queue: NewQueue(rules), clock: c, metrics: metrics}
}

// Do waits for its turn and makes the call. It returns the call's error, or that of ctx if
// ctx ended before the turn came.
func (l *Limiter) Do(ctx context.Context, job Job, call func() error) error {
	t, err := l.enter(ctx, job)
	if err != nil {
		return err
	}
	answered := true // also by a panic
	add(ctx, l.metrics.InFlight, 1)
	defer func() {
		add(ctx, l.metrics.InFlight, -1)
		l.end(ctx, t, answered)
	}()
	err = call()
	class := cri.Class(err)
	answered = ctx.Err() == nil && class != runtime.ErrDeadline && class != runtime.ErrCanceled
	return err
}

// enter waits for the turn of a call.
func (l *Limiter) enter(ctx context.Context, job Job) (*Turn, error) {
	l.mu.Lock()
	t := l.queue.Ask(l.clock.Now(), job)
	taken := l.step()
	come := t.state != waiting
	if !come {
		t.wake = make(chan struct{}, 1)
	}
	l.mu.Unlock()
	l.count(ctx, taken)
	if come {
		return t, nil
	}
	add(ctx, l.metrics.Waiting, 1)
	defer add(ctx, l.metrics.Waiting, -1)
	return t, l.await(ctx, t)
}

// await returns once the turn has come. The first of those that wait also watches the time
// for the others.
func (l *Limiter) await(ctx context.Context, t *Turn) error {
	for {
		fired, stop := timing.Alarm(l.clock, l.watch(t))
		select {
		case <-t.wake:
		case <-fired:
		case <-ctx.Done():
		}
		stop()
		if err := ctx.Err(); err != nil {
			l.end(ctx, t, false)
			return err
		}
		l.mu.Lock()
		taken := l.step()
		come := t.state != waiting
		l.mu.Unlock()
		l.count(ctx, taken)
		if come {
			return nil
		}
	}
}

// watch returns until when the turn has to watch the time, zero if it is not the one that does.
func (l *Limiter) watch(t *Turn) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	due, ok := l.queue.Next()
	if !ok || l.queue.waiting[0] != t {
		return time.Time{}
	}
	l.watcher, l.due = t, due
	return due
}

// end removes a turn from the queue.
func (l *Limiter) end(ctx context.Context, t *Turn, answered bool) {
	l.mu.Lock()
	l.queue.End(l.clock.Now(), t, answered)
	taken := l.step()
	l.mu.Unlock()
	l.count(ctx, taken)
}

// step wakes those whose turn has come, and the first of those that wait if it does not
// watch the time yet, or not closely enough. It returns how many slots were taken. The
// lock is held.
func (l *Limiter) step() int {
	granted, taken := l.queue.Step(l.clock.Now())
	for _, t := range granted {
		t.poke()
	}
	if due, ok := l.queue.Next(); ok {
		if first := l.queue.waiting[0]; first != l.watcher || due.Before(l.due) {
			first.poke()
		}
	}
	return taken
}

func (l *Limiter) count(ctx context.Context, taken int) {
	if l.metrics.Taken != nil && taken > 0 {
		l.metrics.Taken.Add(ctx, int64(taken))
	}
}

// poke makes the goroutine that waits for the turn look again.
func (t *Turn) poke() {
	select {
	case t.wake <- struct{}{}: // nil, and thus never ready, before the turn waits
	default:
	}
}

// Forget drops what is known of a pod. It does not block.
func (l *Limiter) Forget(pod types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue.Forget(pod)
}

// Call is what is known of one call.
type Call struct {
	Job
	// Since is when the call was made, or when it began to wait for its turn.
	Since time.Time
	// Waiting for its turn; Late: unanswered for so long that it has no slot.
	Waiting, Late bool
}

// Calls returns the calls that are made or wait, oldest first.
func (l *Limiter) Calls() []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue.calls) == 0 {
		return nil
	}
	now := l.clock.Now()
	turns := make([]*Turn, 0, len(l.queue.calls))
	for t := range l.queue.calls {
		turns = append(turns, t)
	}
	slices.SortFunc(turns, func(a, b *Turn) int { return cmp.Compare(a.seq, b.seq) })
	out := make([]Call, 0, len(turns))
	for _, t := range turns {
		c := Call{Job: t.Job, Since: t.began, Waiting: t.state == waiting}
		if c.Waiting {
			c.Since = t.asked
		}
		c.Late = t.state == late || t.state == working && now.Sub(t.began) >= l.queue.patience(t)
		out = append(out, c)
	}
	return out
}

func add(ctx context.Context, c metric.Int64UpDownCounter, n int64) {
	if c != nil {
		c.Add(ctx, n)
	}
}
