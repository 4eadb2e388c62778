package pleg

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/timing"
)

// ending says how a bounded call ended for its caller.
type ending uint8

const (
	// inTime: it returned before its limit.
	inTime ending = iota
	// overdue: it ran into its limit, and returned later.
	overdue
	// stopped: the caller's context ended first.
	stopped
	// lost: it ignores the end of its context and was written off (B4).
	lost
)

// limits of a bounded call, which may be a chain of calls of the runtime: it is asked to end when one of
// these gets no answer for run (0 means never), and written off linger later; when the caller's context
// ends, it is written off after stop. waiting, if not nil, is called when one of them gets no answer for
// patience, which is shorter than run.
type limits struct {
	run, linger, stop time.Duration

	patience time.Duration
	waiting  func()
}

// wait calls waiting once.
func (l *limits) wait() {
	if call := l.waiting; call != nil {
		l.waiting = nil
		call()
	}
}

// lostCalls counts the calls that were written off and have not returned since, by the pod they
// read ("" for lists).
type lostCalls struct {
	// returned is called when a lost call comes back.
	returned func()

	mu    sync.Mutex
	n     int
	byPod map[types.UID]int
}

func newLostCalls(returned func()) *lostCalls {
	return &lostCalls{returned: returned, byPod: map[types.UID]int{}}
}

// count returns the number of lost calls.
func (l *lostCalls) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// of returns the number of lost calls of one pod.
func (l *lostCalls) of(uid types.UID) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byPod[uid]
}

func (l *lostCalls) add(uid types.UID, n int) {
	l.n += n
	if l.byPod[uid] += n; l.byPod[uid] == 0 {
		delete(l.byPod, uid)
	}
}

// bounded runs f in its own goroutine under the limits and returns its result if it came in time.
// expired, if not nil, is called when the limit is reached, before the linger. The context of f has
// a cause that says why it ended. A call that was written off is counted in tally for uid until f
// returns, if ever.
func bounded[T any](ctx context.Context, c clock.Clock, l limits, tally *lostCalls, uid types.UID, expired func(), f func(context.Context) T) (T, ending) {
	ctx, answers := timing.Answers(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan T, 1)
	abandoned := false // guarded by tally.mu
	go func() {
		result := f(ctx)
		tally.mu.Lock()
		if !abandoned {
			done <- result
			tally.mu.Unlock()
			return
		}
		tally.add(uid, -1)
		tally.mu.Unlock()
		tally.returned()
	}()

	result, end := await(ctx, c, l, done, answers)
	linger := l.linger
	switch end {
	case inTime:
		return result, inTime
	case stopped:
		linger = l.stop
	default:
		cancel(fmt.Errorf("%w: time limit %v", context.DeadlineExceeded, l.run))
		if expired != nil {
			expired()
		}
	}
	var zero T
	if linger > 0 {
		rest := c.NewTimer(linger)
		defer rest.Stop()
		select {
		case <-done:
			return zero, end
		case <-rest.C():
		}
	}
	tally.mu.Lock()
	defer tally.mu.Unlock()
	select {
	case <-done:
		return zero, end
	default:
	}
	abandoned = true
	tally.add(uid, 1)
	return zero, lost
}

// await waits for the result of a call, its limit, or the end of ctx.
func await[T any](ctx context.Context, c clock.Clock, l limits, done <-chan T, answers <-chan struct{}) (result T, end ending) {
	var impatient, limit <-chan time.Time
	var patience, timer clock.Timer
	if l.waiting != nil {
		patience = c.NewTimer(l.patience)
		defer patience.Stop()
		impatient = patience.C()
	}
	if l.run > 0 {
		timer = c.NewTimer(l.run)
		defer timer.Stop()
		limit = timer.C()
	} else {
		answers = nil
	}
	for {
		select {
		case result := <-done:
			return result, inTime
		case <-impatient:
			l.wait()
		case <-answers:
			timing.Restart(timer, l.run)
			if l.waiting != nil {
				timing.Restart(patience, l.patience)
			}
		case <-limit:
			if timing.Renew(answers, timer, l.run) {
				continue
			}
			l.wait()
			return result, overdue
		case <-ctx.Done():
			return result, stopped
		}
	}
}

// recovered turns a panic of the deferring function into an error (B2).
func recovered(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("panic while reading the runtime: %v\n%s", v, debug.Stack())
	}
}
