package syncloop

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/problem"
)

// ProblemReporter is an optional ability of a [Source]: to report what is wrong with single
// pods that it cannot deliver, or only delivers in an earlier version.
type ProblemReporter interface {
	// Unreadable returns the current problems, as []podwright.Problem. It must not block. Name, Since, Waits and Advice
	// say what is wrong, and Err why; Kind and Severity are set by the loop: a source harms only its own pods.
	Unreadable() []problem.Problem
}

// Problems returns what the loop has waited for too long: an iteration or a housekeeping pass
// that does not end, sources that are silent, fail or cannot name their pods, pods whose name or UID
// another one has, and pods without an admission verdict or behind a closed gate.
func (l *Loop) Problems() []problem.Problem {
	now := l.options.Clock.Now()
	out := l.stuck(now)
	for _, s := range l.Sources() {
		out = append(out, s.problems(now)...)
	}
	out = append(out, l.mux.missing(now)...)
	for _, s := range l.sources.list() {
		if r, ok := s.source.(ProblemReporter); ok {
			found, _ := ask(l.reports, s.name+".Unreadable", r.Unreadable)
			out = append(out, problem.OfSource(found)...)
		}
	}
	out = append(out, l.calls.Problems()...)
	out = append(out, l.held.problems(now)...)
	for _, v := range l.OpenVerdicts() {
		if !v.Overdue {
			continue
		}
		p := problem.Problem{
			Kind: problem.Pod, Severity: problem.Listed, Name: problem.Of(v.Namespace, v.Name, v.UID), UID: v.UID, Since: v.Since,
			Waits: "its admission", Advice: "look at the handler, or at the pods that have to make room for this one",
		}
		out = append(out, p.Because(v.Err))
	}
	return out
}

// reports are the sources' methods that report: how they are called, and what they said last.
type reports struct {
	calls *foreign.Calls

	mu   sync.Mutex
	last map[string]any
}

// ask calls a method of a source that must not block. If it panics, or blocks nevertheless, no
// caller is harmed and it is listed (IN6); until it answers, its last answer counts.
func ask[T any](r *reports, name string, method func() T) (T, error) {
	call := foreign.Call{Kind: problem.Function, Name: name, Patience: problem.FunctionLimit}
	got, err := foreign.Quick(r.calls, call, nil, func() (T, error) { return method(), nil })
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.last[name] = got
	case errors.As(err, new(*foreign.UnansweredError)):
		got, _ = r.last[name].(T)
		err = nil
	}
	return got, err
}

// healthOf returns the health that a source reports.
func (l *Loop) healthOf(name string, r HealthReporter) SourceHealth {
	health, err := ask(l.reports, name+".Health", r.Health)
	if err != nil {
		health.LastError, health.LastErrorAt = err, l.options.Clock.Now()
	}
	return health
}

// stuck returns the iteration and the pass that do not end. They harm all pods once they
// are stuck for longer than Options.StuckAfter (L6).
func (l *Loop) stuck(now time.Time) (out []problem.Problem) {
	for _, x := range []struct {
		kind   problem.Kind
		name   string
		limit  time.Duration
		since  *time.Time
		advice string
	}{
		{problem.Loop, "sync loop", problem.LoopLimit, l.busySince.Load(), "report it, with a dump of all goroutines: the loop waits for nothing outside"},
		{problem.Housekeeping, "housekeeping", problem.PassLimit, l.passSince.Load(), "look at the other problems: the pass waits for one of them"},
	} {
		if x.since == nil || now.Sub(*x.since) < min(x.limit, l.options.StuckAfter) {
			continue
		}
		p := problem.Problem{Kind: x.kind, Severity: problem.Listed, Name: x.name, Since: *x.since, Waits: "its current round to end", Advice: x.advice}
		if now.Sub(*x.since) > l.options.StuckAfter {
			p.Severity = problem.Unhealthy
		}
		out = append(out, p)
	}
	return out
}

// problems returns what is wrong with a source.
func (s *SourceStatus) problems(now time.Time) (out []problem.Problem) {
	p := problem.Problem{Kind: problem.Source, Severity: problem.Listed, Name: s.Name, Advice: "look at what the source reads; its pods stay as they are"}
	h := &s.Health
	if err := errors.Join(s.RunError, h.LastError); err != nil {
		failing := p
		switch failing.Since, failing.Waits = s.FailingSince, "the source to be read"; {
		case s.RunError != nil:
		case !h.LastErrorAt.IsZero() && !h.LastErrorAt.After(h.LastSuccess):
			failing.Since, failing.Waits = h.LastErrorAt, "what the source reads to be mended"
			failing.Advice = "look at what the source reads; but for this it counts as it is"
		case h.LastSuccess.After(s.Started):
			failing.Since = h.LastSuccess
		default:
			failing.Since = s.Started
		}
		out = append(out, failing.Because(fmt.Errorf("source %s: %w", s.Name, err)))
	}
	switch {
	case !h.Pending.IsZero() && now.Sub(h.Pending) >= problem.SourceLimit:
		hanging := p
		hanging.Since, hanging.Waits = h.Pending, "a read of the source to end"
		hanging.Advice = "look at the file system or the server that the source reads; its pods stay as they are"
		out = append(out, hanging)
	case !s.Ready && s.RunError == nil && h.LastError == nil && !s.Started.IsZero() && now.Sub(s.Started) >= problem.SourceLimit:
		silent := p
		silent.Since, silent.Waits = s.Started, "the source's first word"
		silent.Advice = "look at what the source reads; nothing is removed until every source was heard"
		out = append(out, silent)
	}
	if s.Undecided != nil {
		undecided := p
		undecided.Since, undecided.Waits = s.UndecidedSince, "the source to name all its pods"
		undecided.Advice = "mend what the source cannot read; until then pods that it may want are not removed"
		out = append(out, undecided.Because(fmt.Errorf("source %s: %w", s.Name, s.Undecided)))
	}
	return out
}
