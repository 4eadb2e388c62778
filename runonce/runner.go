package runonce

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/status"
)

// ErrLimit is wrapped in the error of [Runner.Run] if the run took longer than its limit, or
// if the runtime or a source was not heard within the start limit.
var ErrLimit = errors.New("the time limit of the run is up")

// errEnded means that the engine ended by itself, for example because all its sources were closed.
var errEnded = errors.New("runonce: the engine ended before its pods did; keep its sources open")

const (
	// seldom is the longest time between two looks at the pods, pause the shortest: the cost of a
	// look grows with the number of pods.
	seldom = 10 * time.Second
	pause  = 50 * time.Millisecond
	// stopMargin is how long a drain may take beyond the longest grace period.
	stopMargin = time.Minute
)

// Engine is what a run needs of the engine. A *podwright.Engine is one.
type Engine interface {
	Run(ctx context.Context) error
	Drain(ctx context.Context) error
	Ready() <-chan struct{}
	Pods() []v1.Pod
	Problems() []podwright.Problem
	Explain(uid types.UID) (podwright.Explanation, bool)
}

// Runner runs the pods of an engine once. Make one with [New], and add it to Observe.Sinks in
// the engine's configuration; otherwise it looks at the pods only every 10 s.
type Runner struct {
	o       Options
	begun   atomic.Bool
	changed chan struct{} // holds one element while there is something to look at

	mu       sync.Mutex
	released map[types.UID]bool

	// pods belongs to the goroutine of Run.
	pods map[types.UID]*subject
}

var _ status.StatusSink = (*Runner)(nil)

// New returns a runner for one run. The error says which option is wrong.
func New(o Options) (*Runner, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	return &Runner{o: o, changed: make(chan struct{}, 1), released: map[types.UID]bool{}, pods: map[types.UID]*subject{}}, nil
}

// Store implements [status.StatusSink]. It never blocks and never fails.
func (r *Runner) Store(_ context.Context, u status.Update) (status.StoreResult, error) {
	r.mu.Lock()
	r.released[u.UID] = u.Finished
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default: // a look is due already
	}
	return status.Stored, nil
}

// Run runs the engine until every pod is over, or ctx or a limit ends it, and returns once the
// engine has ended. The report always covers every pod; if a source was not heard, every pod that the
// engine has. The error is about the run only: the cause of ctx, an [ErrLimit], or the error of the
// engine's Run or Drain; failures of pods are in [Report.Err]. With [Options.Drain], Run first waits
// until the pods have stopped, even if ctx has ended: at most for the longest grace period plus a
// minute. Call Run once.
func (r *Runner) Run(ctx context.Context, engine Engine) (Report, error) {
	if r.begun.Swap(true) {
		return Report{}, errors.New("runonce: a Runner runs only once: make a new one")
	}
	report := Report{Started: r.o.Clock.Now()}
	running, stop := context.WithCancel(context.WithoutCancel(ctx)) // ctx may end before the drain
	defer stop()
	ended := make(chan struct{})
	var engineErr error // read once ended is closed
	go func() {
		defer close(ended)
		engineErr = engine.Run(running)
	}()
	err := r.await(ctx, engine, ended)
	over := r.o.Clock.Now()
	report.Problems = engine.Problems()
	if r.o.Drain && !errors.Is(err, errEnded) {
		err = errors.Join(err, r.drain(context.WithoutCancel(ctx), engine))
	}
	stop()
	<-ended
	if engineErr != nil && errors.Is(err, errEnded) {
		err = nil // the engine says why
	}
	report.Ended = r.o.Clock.Now()
	report.Pods = r.report(over, report.Ended)
	return report, errors.Join(err, engineErr)
}

// await looks at the pods until all are over, and returns nil then, or until something else ends the run. Looks before the
// engine is ready, which it is once every source was heard, are for the report of a run that ends first.
func (r *Runner) await(ctx context.Context, engine Engine, ended <-chan struct{}) error {
	begin := r.o.Clock.Now()
	ready, last, due := engine.Ready(), time.Time{}, begin // ready is nil once the engine is; due is when to look next
	for {
		now := r.o.Clock.Now()
		if !now.Before(due) {
			over, next := r.look(engine, now, ready == nil)
			if over && ready == nil {
				return nil
			}
			last, due = now, earlier(now.Add(seldom), next)
		}
		limit, err := r.limit(begin, now, ready == nil)
		if err != nil {
			return err
		}
		again, stop := timing.Alarm(r.o.Clock, earlier(due, limit))
		select {
		case <-ready:
			ready, due = nil, now
			clear(r.pods) // times and restarts count from here, and what an earlier run has left is gone
		case <-r.changed:
			due = earlier(due, last.Add(pause))
		case <-again:
		case <-ended:
			stop()
			return errEnded
		case <-ctx.Done():
			stop()
			return fmt.Errorf("runonce: %w", context.Cause(ctx))
		}
		stop()
	}
}

// limit returns when the run's time is up, zero if never, and an [ErrLimit] if it is up.
func (r *Runner) limit(begin, now time.Time, heard bool) (end time.Time, err error) {
	if r.o.Limit > 0 {
		if end = begin.Add(r.o.Limit); !now.Before(end) {
			return end, fmt.Errorf("runonce: %w: it was %v", ErrLimit, r.o.Limit)
		}
	}
	if !heard && r.o.StartLimit >= 0 {
		silent := begin.Add(r.o.StartLimit)
		if !now.Before(silent) {
			return silent, fmt.Errorf("runonce: %w: the runtime or a source was not heard within %v", ErrLimit, r.o.StartLimit)
		}
		end = earlier(end, silent)
	}
	return end, nil
}

// earlier returns the earlier of two times; a zero time means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// look looks at all pods. It returns whether all are over, and when another look is due. Until all sources were heard, a
// pod that disappears may be one of an earlier run that no source wants, so it does not count.
func (r *Runner) look(engine Engine, now time.Time, heard bool) (over bool, next time.Time) {
	begun := map[types.UID]bool{} // must be asked before the statuses are read
	for uid, s := range r.pods {
		begun[uid] = s.handed || s.begun(engine, uid, now)
	}
	there := map[types.UID]bool{}
	for _, pod := range engine.Pods() {
		s := r.pods[pod.UID]
		if s == nil {
			s = &subject{}
			begun[pod.UID], r.pods[pod.UID] = false, s
		}
		there[pod.UID], s.handed = true, begun[pod.UID]
		s.note(&pod, r.isReleased(pod.UID), now)
	}
	over = true
	for uid, s := range r.pods {
		if !there[uid] && !heard {
			delete(r.pods, uid)
			continue
		}
		if !there[uid] {
			s.note(nil, false, now)
		}
		v := r.o.judge(s, now)
		over = over && v.outcome != Unfinished
		next = earlier(next, v.look)
	}
	return over, next
}

// begun reports whether the engine has begun with a pod, or has no reason to hold it back, and
// notes the reason if it has one.
func (s *subject) begun(engine Engine, uid types.UID, now time.Time) bool {
	e, _ := engine.Explain(uid)
	s.held = e.Held
	if e.Worker != nil {
		return e.Held == "" && !e.Worker.RestartRequested // otherwise one life ends, and another follows
	}
	return e.Held == "" && !now.Before(s.first.Add(handTime))
}

// isReleased reports whether the engine has released a pod.
func (r *Runner) isReleased(uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.released[uid]
}

// drain stops the pods that still run.
func (r *Runner) drain(ctx context.Context, engine Engine) error {
	limit := time.Duration(0)
	for _, pod := range engine.Pods() {
		if grace := pod.Spec.TerminationGracePeriodSeconds; grace != nil {
			limit = max(limit, timing.Seconds(*grace))
		}
	}
	ctx, cancel := timing.WithTimeout(ctx, r.o.Clock, limit+stopMargin)
	defer cancel()
	if err := engine.Drain(ctx); err != nil {
		return fmt.Errorf("runonce: stop the pods: %w", err)
	}
	return nil
}

// report returns what became of each pod when the run was over. The drain that followed gives no pod more time to be
// ready or late; only a pod that had ended has been released by it.
func (r *Runner) report(over, drained time.Time) []Pod {
	out := make([]Pod, 0, len(r.pods))
	for _, s := range r.pods {
		v := r.o.judge(s, over)
		if later := r.o.judge(s, drained); v.outcome == Unfinished && (later.outcome == Succeeded || later.outcome == Failed) {
			v = later
		}
		out = append(out, podOf(s.pod, v))
	}
	byName(out)
	return out
}
