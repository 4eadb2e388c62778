package syncloop

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/timing"
)

// schedule is when the loop has to wake up without an input.
type schedule struct {
	timer clock.Timer

	retryAt    time.Time // held work; zero if there is none
	retryDelay time.Duration

	passAt    time.Time // next housekeeping pass; zero without a housekeeper
	lastPass  time.Time
	lastInput time.Time // of anything that a pass may have to follow
	passing   bool
	passAgain bool // triggered while a pass was under way
}

// Run runs the sources and the loop until ctx ends, or until every source is
// closed and what they delivered is handled (B1). It returns when all goroutines
// it started have ended: nil when the sources closed, ctx's cause otherwise. If a source ignores
// the end of its context for 5 s, Run logs it and no longer waits for it.
// A second call returns an error. Pods are left as they are.
func (l *Loop) Run(ctx context.Context) error {
	if !l.started.CompareAndSwap(false, true) {
		return errRunning
	}
	if ctx.Err() != nil { // a source may do something before it looks at its context
		l.sources.stop()
		return context.Cause(ctx)
	}
	stop, err := l.metrics.observe(l)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	defer stop()

	defer l.leave()
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before wg.Wait: the goroutines end with it
	l.sources.start(func(s member) {
		wg.Go(func() {
			defer l.sources.ended()
			l.runSource(ctx, s)
		})
		if l.options.SourceDeadline > 0 {
			wg.Go(func() { l.awaitSource(ctx, s.name) })
		}
	})
	defer l.sources.stop() // from here on none is added to wg
	return l.loop(ctx, &wg)
}

// loop handles one input at a time, the most urgent first, and whatever is due by
// time after each, so nothing starves.
func (l *Loop) loop(ctx context.Context, wg *sync.WaitGroup) error {
	if l.options.Housekeeper != nil {
		l.schedule.passAt = l.options.Clock.Now().Add(l.options.HousekeepingPeriod)
	}
	l.schedule.timer = l.options.Clock.NewTimer(idleWait)
	defer l.schedule.timer.Stop()
	passed := make(chan time.Duration, 1) // at most one pass is under way
	var events <-chan struct{}
	if l.options.Changes != nil {
		events = l.options.Changes.Ready()
	}
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if l.turn(ctx) {
			select {
			case rest := <-passed:
				l.passDone(rest)
			case <-l.trigger:
				l.passSoon()
			case <-l.gateChanged:
				l.retryNow()
			case <-l.answers:
				l.hear(ctx)
			default:
			}
			l.due(ctx, wg, passed)
			continue
		}
		// Once everything is handled, the loop is done (B1).
		if l.sources.allEnded() && len(l.mux.queue) == 0 && l.held.empty() && l.verdicts.empty() {
			return nil
		}
		if !l.arm() {
			l.due(ctx, wg, passed)
			continue
		}
		select {
		case <-ctx.Done():
		case b := <-l.mux.queue:
			l.take(ctx, b)
		case <-events:
			l.syncs = append(l.syncs, l.options.Changes.Take()...)
		case <-l.trigger:
			l.passSoon()
		case <-l.gateChanged:
			l.retryNow()
			l.due(ctx, wg, passed)
		case <-l.answers:
			l.hear(ctx)
			l.due(ctx, wg, passed)
		case rest := <-passed:
			l.passDone(rest)
		case <-l.schedule.timer.C():
			l.due(ctx, wg, passed)
		case <-l.sources.news:
		}
	}
}

// turn handles some pods of one lane, without waiting. It reports whether there was
// anything to do.
func (l *Loop) turn(ctx context.Context) bool {
	waits := l.gather(ctx)
	from, any := l.turns.next(waits)
	if !any {
		return false
	}
	n := l.handle(ctx, from, chunk)
	l.turns.took(from, n, waits)
	return true
}

// gather accepts what has arrived, as far as there is room for it, and reports which
// lanes have something.
func (l *Loop) gather(ctx context.Context) (waits [lanes]bool) {
	for more := true; more && !l.pending.full(); {
		select {
		case b := <-l.mux.queue:
			l.take(ctx, b)
		default:
			more = false
		}
	}
	if l.options.Changes != nil && len(l.syncs) == 0 {
		select {
		case <-l.options.Changes.Ready():
			l.syncs = append(l.syncs, l.options.Changes.Take()...)
		default:
		}
	}
	waits[laneUrgent], waits[laneChange], waits[laneSync] = l.pending.ready(laneUrgent), l.pending.ready(laneChange), len(l.syncs) > 0
	return waits
}

// due does what is due by time.
func (l *Loop) due(ctx context.Context, wg *sync.WaitGroup, passed chan<- time.Duration) {
	l.retryHeld(ctx)
	l.startPass(ctx, wg, passed)
}

func (l *Loop) take(ctx context.Context, b batch) {
	l.metrics.queueAge.Record(ctx, l.options.Clock.Since(b.accepted).Seconds())
	l.pending.add(b)
}

// idleWait is how long the loop waits if nothing becomes due.
const idleWait = time.Hour

// arm sets the timer to the next moment at which the loop has to wake up without an
// input. It returns false if that has come.
func (l *Loop) arm() bool {
	s := &l.schedule
	at := s.retryAt
	if !s.passing && !s.passAt.IsZero() && (at.IsZero() || s.passAt.Before(at)) {
		at = s.passAt
	}
	wait := idleWait
	if !at.IsZero() {
		wait = at.Sub(l.options.Clock.Now())
	}
	if wait <= 0 {
		return false
	}
	timing.Restart(s.timer, wait)
	return true
}

// retryHeld tries waiting work, if it is due.
func (l *Loop) retryHeld(ctx context.Context) {
	s := &l.schedule
	if s.retryAt.IsZero() || l.options.Clock.Now().Before(s.retryAt) {
		return
	}
	s.retryAt = time.Time{}
	defer l.stamp(ctx, "held")()
	l.fence.Lock()
	defer l.fence.Unlock()
	if len(l.round.left) == 0 {
		l.held.flush(ctx) // before a round: pods that were admitted before go first
	}
	l.judge(ctx)
	l.planRetry()
}

// retryNow makes waiting work due.
func (l *Loop) retryNow() {
	l.stir(l.options.Clock.Now())
	l.round.again = true
	if s := &l.schedule; !s.retryAt.IsZero() || !l.verdicts.empty() {
		s.retryAt, s.retryDelay = l.options.Clock.Now(), 0
	}
}

// planRetry schedules the next attempt for held work: after 100 ms, doubling up to
// 5 s while any is left. The rest of a round of questions, and a round after a change, come at once.
func (l *Loop) planRetry() {
	s := &l.schedule
	switch {
	case l.held.idle() && l.verdicts.empty():
		s.retryAt, s.retryDelay = time.Time{}, 0
	case len(l.round.left) > 0:
		s.retryAt = l.options.Clock.Now()
	case s.retryAt.IsZero() && l.round.again:
		l.round.again = false
		s.retryAt, s.retryDelay = l.options.Clock.Now(), 0
	case s.retryAt.IsZero():
		s.retryDelay = backoff.Next(retryMin, retryMax, s.retryDelay)
		s.retryAt = l.options.Clock.Now().Add(s.retryDelay)
	}
}

// passSoon moves the next housekeeping pass forward (B6).
func (l *Loop) passSoon() {
	s := &l.schedule
	if l.options.Housekeeper == nil {
		return
	}
	l.stir(l.options.Clock.Now())
	if s.passing {
		s.passAgain = true
		return
	}
	at := l.options.Clock.Now().Add(housekeepingDelay)
	if gap := s.lastPass.Add(housekeepingGap); at.Before(gap) {
		at = gap
	}
	if at.Before(s.passAt) {
		s.passAt = at
	}
}

// startPass starts a housekeeping pass, if it is time and all sources are ready
// (R3, SG1).
func (l *Loop) startPass(ctx context.Context, wg *sync.WaitGroup, passed chan<- time.Duration) {
	s := &l.schedule
	now := l.options.Clock.Now()
	if s.passing || s.passAt.IsZero() || now.Before(s.passAt) {
		return
	}
	s.passAt = now.Add(l.options.HousekeepingPeriod)
	if !l.Ready() {
		return
	}
	s.passing, s.lastPass = true, now
	wg.Go(func() {
		passed <- l.pass(ctx)
	})
}

// passDone plans the next pass: after the period, or after a longer rest if nothing has happened
// for a while and no work is held (B12).
func (l *Loop) passDone(rest time.Duration) {
	s := &l.schedule
	now, period := l.options.Clock.Now(), l.options.HousekeepingPeriod
	if now.Sub(s.lastInput) >= restAfter && l.held.empty() && l.verdicts.empty() {
		period = max(period, rest)
	}
	s.passing = false
	s.passAt = now.Add(period)
	if s.passAgain {
		s.passAgain = false
		l.passSoon()
	}
}

// stir ends the rest between passes: something has happened that a pass may have to follow.
func (l *Loop) stir(now time.Time) {
	s := &l.schedule
	s.lastInput = now
	if at := s.lastInput.Add(l.options.HousekeepingPeriod); at.Before(s.passAt) {
		s.passAt = at
	}
}

// pass makes one housekeeping pass. It returns how long further passes can be left out.
func (l *Loop) pass(ctx context.Context) (rest time.Duration) {
	start := l.options.Clock.Now()
	l.passSince.Store(&start)
	defer l.passSince.Store(nil)
	defer func() {
		if p := recover(); p != nil {
			l.metrics.panicked(ctx, "housekeeping")
			l.options.Logger.Error(fmt.Errorf("panic: %v", p), "Housekeeping panicked", "stack", string(debug.Stack()))
		}
	}()
	rest, err := l.options.Housekeeper.Housekeep(ctx, func(critical func()) {
		l.fence.Lock()
		defer l.fence.Unlock()
		critical()
	})
	took := l.options.Clock.Since(start)
	l.metrics.passes.Record(ctx, took.Seconds())
	if ctx.Err() == nil {
		l.passes.Note(l.options.Logger, start.Add(took), err, "Housekeeping is incomplete", "Housekeeping is complete again")
	}
	if took > slowPass {
		l.options.Logger.Info("Housekeeping took long", "duration", took)
	}
	l.mux.again(ctx) // the pass may have removed the last that is left of a pod
	return rest
}

// becomeReady dispatches the removals that waited until the sources were ready
// (B7).
func (l *Loop) becomeReady(ctx context.Context) {
	l.first.Do(func() { close(l.readyC) })
	put := l.deferred
	l.deferred = map[types.UID]*v1.Pod{}
	for _, uid := range sortedUIDs(put) {
		if _, desired := l.store.Get(uid); !desired { // otherwise it came back
			l.submit(ctx, WorkKill, put[uid], nil)
		}
	}
	l.TriggerHousekeeping() // B6
}
