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

// limits of a bounded call: it is asked to end after run (0 means never) and written off linger
// later; when the caller's context ends, it is written off after stop. waiting, if not nil, is
// called when there is no answer after patience, which is shorter than run.
type limits struct {
	run, linger, stop time.Duration

	patience time.Duration
	waiting  func()
}

// first returns how long to wait for whichever comes first, patience or run.
func (l *limits) first() time.Duration {
	if l.waiting != nil {
		return l.patience
	}
	return l.run
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

	var limit <-chan time.Time
	var timer clock.Timer
	if l.run > 0 {
		timer = c.NewTimer(l.first())
		defer timer.Stop()
		limit = timer.C()
	}
	end, linger := overdue, l.linger
	if l.waiting != nil {
		select {
		case result := <-done:
			return result, inTime
		case <-limit:
			l.waiting()
			timing.Restart(timer, l.run-l.patience)
		case <-ctx.Done():
		}
	}
	select {
	case result := <-done:
		return result, inTime
	case <-limit:
		cancel(fmt.Errorf("%w: time limit %v", context.DeadlineExceeded, l.run))
		if expired != nil {
			expired()
		}
	case <-ctx.Done():
		end, linger = stopped, l.stop
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

// recovered turns a panic of the deferring function into an error (B2).
func recovered(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("panic while reading the runtime: %v\n%s", v, debug.Stack())
	}
}
