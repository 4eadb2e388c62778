package eviction

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/problem"
)

// unknownAfter is the least time after which a condition is Unknown because its signals are not read.
const unknownAfter = time.Minute

// gap is a time in which a signal has not been read.
type gap struct {
	since time.Time
	err   error // why, nil for a signal of the embedding program
}

// signalError is why one signal cannot be read.
type signalError struct {
	signal Signal
	err    error
}

func (e *signalError) Error() string { return fmt.Sprintf("%s: %v", e.signal, e.err) }

func (e *signalError) Unwrap() error { return e.err }

// signalErrors returns what err says about single signals.
func signalErrors(err error) map[Signal]error {
	out := map[Signal]error{}
	var visit func(error)
	visit = func(err error) {
		switch e := err.(type) { //nolint:errorlint // errors.As finds only the first
		case *signalError:
			out[e.signal] = errors.Join(out[e.signal], e)
		case interface{ Unwrap() []error }:
			for _, part := range e.Unwrap() {
				visit(part)
			}
		case interface{ Unwrap() error }:
			visit(e.Unwrap())
		}
	}
	visit(err)
	return out
}

// gaps returns the signals that limits need and that were not read, given those of the pass before.
// has remembers which signals the node has: those that were read at some time. It does not have one
// that is missing although no error explains that. An error that names no signal explains the absence
// of those that were read before; if nothing of the node can be read, also of those that are not known yet.
func (p Policy) gaps(before map[Signal]gap, has map[Signal]bool, readings map[Signal]Observation, err error, now time.Time) map[Signal]gap {
	named, out := signalErrors(err), map[Signal]gap{}
	blind := !slices.ContainsFunc(slices.Collect(maps.Keys(readings)), func(s Signal) bool { return !p.kind(s).own })
	for _, t := range p.Thresholds {
		if p.kind(t.Signal).own {
			if _, read := readings[t.Signal]; !read {
				out[t.Signal] = gap{since: begun(before, t.Signal, now)}
			}
			continue
		}
		why := named[t.Signal]
		exists, known := has[t.Signal]
		if why == nil && len(named) == 0 && (exists || blind) {
			why = err
		}
		if _, read := readings[t.Signal]; read || why == nil {
			has[t.Signal] = read
		} else if exists || !known {
			out[t.Signal] = gap{begun(before, t.Signal, now), why}
		}
	}
	return out
}

// begun returns since when a signal is not read.
func begun(before map[Signal]gap, s Signal, now time.Time) time.Time {
	if g, known := before[s]; known {
		return g.since
	}
	return now
}

// unknown says of which conditions it is not known any more whether they are true, and why, given those
// of the pass before: one that is not False does not become so while a signal of it is not read.
func (p Policy) unknown(before []v1.NodeCondition, gaps map[Signal]gap, now time.Time) map[v1.NodeConditionType]string {
	names := map[v1.NodeConditionType][]string{}
	for _, signal := range slices.Sorted(maps.Keys(gaps)) {
		c := p.kind(signal).condition
		raised := slices.ContainsFunc(before, func(b v1.NodeCondition) bool { return b.Type == c && b.Status != v1.ConditionFalse })
		if raised || now.Sub(gaps[signal].since) >= max(p.Transition, unknownAfter) {
			names[c] = append(names[c], string(signal))
		}
	}
	out := map[v1.NodeConditionType]string{}
	for c, list := range names {
		out[c] = strings.Join(list, ", ") + " cannot be read"
	}
	return out
}

// unreadProblems returns the node's signals that have not been read for [problem.FunctionLimit].
// [observers.problems] returns those of the embedding program.
func (m *Manager) unreadProblems() []problem.Problem {
	now := m.options.Clock.Now()
	m.mu.Lock()
	gaps := maps.Clone(m.gaps)
	m.mu.Unlock()
	var out []problem.Problem
	for _, signal := range slices.Sorted(maps.Keys(gaps)) {
		g := gaps[signal]
		if m.options.Policy.kind(signal).own || now.Sub(g.since) < problem.FunctionLimit {
			continue
		}
		out = append(out, problem.Problem{
			Kind: problem.Reading, Severity: problem.Listed, Name: string(signal), Since: g.since,
			Waits: "a reading of the eviction signal", Advice: fmt.Sprintf("fix what cannot be read; until then no pod is evicted for %s", signal),
		}.Because(g.err))
	}
	return out
}
