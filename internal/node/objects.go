package node

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/syncloop"
)

// Pauses before a failed watch of objects is restarted.
const (
	objectRetryMin = time.Second
	objectRetryMax = 20 * time.Second
)

// Objects keeps the pods up to date with their config maps and secrets (OB7).
type Objects struct {
	// Getter is the user's, nil if there are no objects.
	Getter pods.ObjectGetter
	// Changed wakes the pods that refer to an object.
	Changed func(o podinfo.Object)
	Calls   *foreign.Calls
	Clock   clock.Clock
	Logger  logr.Logger

	mu     sync.Mutex
	failed error
	since  time.Time
}

// Allow tells a source that config maps and secrets can be read, if that is the case.
func (o *Objects) Allow(s syncloop.Source) {
	if r, ok := s.(syncloop.ObjectReferrer); ok && o.Getter != nil {
		r.AllowObjects()
	}
}

// Run watches the objects until ctx ends, if the getter can.
func (o *Objects) Run(ctx context.Context) error {
	watcher, able := o.Getter.(pods.ObjectWatcher)
	if !able {
		<-ctx.Done()
		return nil
	}
	call := foreign.Call{Kind: problem.Function, Name: "Pods.Objects.Run"}
	var pause time.Duration
	for ctx.Err() == nil {
		_, err := foreign.Ask(ctx, o.Calls, call, foreign.Limits{}, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, watcher.Run(ctx, o.Changed)
		})
		if ctx.Err() != nil {
			return nil
		}
		o.note(err)
		if err == nil {
			<-ctx.Done() // no more changes will come
			return nil
		}
		pause = backoff.Next(objectRetryMin, objectRetryMax, pause)
		o.Logger.Error(err, "The watch of config maps and secrets failed; pods see changes with their next sync", "retryAfter", pause)
		timer := o.Clock.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
	}
	return nil
}

func (o *Objects) note(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil && o.failed == nil {
		o.since = o.Clock.Now()
	}
	o.failed = err
}

// Problems returns what keeps objects from being read.
func (o *Objects) Problems() []problem.Problem {
	var out []problem.Problem
	if r, ok := o.Getter.(syncloop.ProblemReporter); ok {
		call := foreign.Call{Kind: problem.Function, Name: "Pods.Objects.Unreadable", Patience: problem.FunctionLimit}
		out, _ = foreign.Quick(o.Calls, call, nil, func() ([]problem.Problem, error) { return r.Unreadable(), nil })
		out = problem.OfSource(out)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed == nil {
		return out
	}
	return append(out, problem.Problem{
		Kind: problem.Source, Severity: problem.Listed, Name: "config maps and secrets", Since: o.since,
		Waits: "their watch to be begun again", Advice: "look at what Config.Pods.Objects reads; pods see changes with their next sync",
	}.Because(o.failed))
}
