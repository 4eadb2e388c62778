package eviction

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/internal/timing"
)

const (
	// observeWait is how long a pass waits for all signals of the embedding program together.
	observeWait = time.Second
	// observationKept is the maximum age of a reading that arrived after its pass had gone on.
	observationKept = 30 * time.Second
)

// observers read the signals of the embedding program, each on its own goroutine.
type observers struct {
	clock  clock.Clock
	logger logr.Logger
	calls  *foreign.Calls
	under  sync.WaitGroup

	mu  sync.Mutex
	all []*observed
}

// observed is one signal and what is known of it.
type observed struct {
	OwnSignal
	// done is closed when the call in progress has ended; nil before the first.
	done chan struct{}
	// latest is a reading that no pass has judged yet, and at is when it arrived.
	latest *Observation
	at     time.Time
	// err is why the signal cannot be read, and since when that began.
	err   error
	since time.Time
}

func newObservers(own []OwnSignal, c clock.Clock, logger logr.Logger) *observers {
	o := &observers{clock: c, logger: logger, calls: foreign.New(c)}
	for _, s := range own {
		o.all = append(o.all, &observed{OwnSignal: s})
	}
	return o
}

// begin starts reading every signal that is not being read already.
func (o *observers) begin(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.all {
		if s.done != nil && !timing.Ended(s.done) {
			continue
		}
		done := make(chan struct{})
		s.done = done
		o.under.Go(func() {
			defer close(done)
			o.observe(ctx, s)
		})
	}
}

// observe reads one signal. A call that has not returned is not made again.
func (o *observers) observe(ctx context.Context, s *observed) {
	call := foreign.Call{Kind: problem.Function, Name: "Eviction.Policy.Own.Observe", Object: string(s.Name)}
	got, err := foreign.Ask(ctx, o.calls, call, foreign.Limits{Wait: problem.FunctionLimit}, s.Observer.Observe)
	if ctx.Err() != nil {
		return
	}
	o.mu.Lock()
	now := o.clock.Now()
	failed, since := s.err != nil, s.since
	if err != nil && !failed {
		s.since = now
		if late := (*foreign.UnansweredError)(nil); errors.As(err, &late) {
			s.since = late.Since
		}
	}
	if s.err = err; err == nil {
		s.latest, s.at = &got, now
	}
	o.mu.Unlock() // before anything is logged: a logger may block, or ask for the problems
	switch {
	case err != nil && !failed:
		o.logFailure(s.Name, err)
	case err == nil && failed:
		o.logger.Info("An eviction signal can be read again", "signal", s.Name, "failedFor", now.Sub(since))
	}
}

func (o *observers) logFailure(name Signal, err error) {
	stack := ""
	if panicked := (*foreign.PanicError)(nil); errors.As(err, &panicked) {
		stack = panicked.Trace()
	}
	o.logger.Error(err, "An eviction signal cannot be read; it decides nothing until it can", "signal", name, "stack", stack)
}

// collect waits briefly for the calls in progress, and returns each reading once.
func (o *observers) collect(ctx context.Context) map[Signal]Observation {
	o.await(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	out := map[Signal]Observation{}
	for _, s := range o.all {
		if s.latest != nil && o.clock.Since(s.at) < observationKept {
			out[s.Name] = *s.latest
		}
		s.latest = nil
	}
	return out
}

func (o *observers) await(ctx context.Context) {
	if len(o.all) == 0 {
		return
	}
	timer := o.clock.NewTimer(observeWait)
	defer timer.Stop()
	for _, s := range o.all { // only the goroutine of Run starts calls
		select {
		case <-s.done:
		case <-timer.C():
			return
		case <-ctx.Done():
			return
		}
	}
}

// leave waits for those calls in progress that end with their context, also of other functions.
func (o *observers) leave() {
	o.under.Wait()
	o.calls.Leave(o.logger)
}

// problems returns the signals that cannot be read.
func (o *observers) problems() []problem.Problem {
	out := o.calls.Problems()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.all {
		panicked := errors.As(s.err, new(*foreign.PanicError)) // listed above
		if s.err == nil || panicked || o.clock.Since(s.since) < problem.FunctionLimit {
			continue
		}
		out = append(out, problem.Problem{
			Kind: problem.Function, Severity: problem.Listed, Name: string(s.Name), Since: s.since,
			Waits: "a reading of the eviction signal", Advice: "fix what the signal reads; until then the signal decides nothing",
		}.Because(s.err))
	}
	return out
}
