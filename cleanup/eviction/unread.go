package eviction

import (
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

// gaps returns the signals that limits need and that were not read, given those of the pass before. A
// signal of the node that is missing without an error is not watched: the node has no such thing, and
// this is remembered in absent until it is read.
func (p Policy) gaps(before map[Signal]gap, absent map[Signal]bool, readings map[Signal]Observation, err error, now time.Time) map[Signal]gap {
	out := map[Signal]gap{}
	for _, t := range p.Thresholds {
		_, read := readings[t.Signal]
		own := p.kind(t.Signal).own
		switch {
		case read:
			delete(absent, t.Signal)
		case !own && err == nil:
			absent[t.Signal] = true
		case own || !absent[t.Signal]:
			g, known := before[t.Signal]
			if !known {
				g.since = now
			}
			if !own {
				g.err = err
			}
			out[t.Signal] = g
		}
	}
	return out
}

// unknown says of which conditions it is not known any more whether they are true, and why.
func (p Policy) unknown(gaps map[Signal]gap, now time.Time) map[v1.NodeConditionType]string {
	names := map[v1.NodeConditionType][]string{}
	for _, signal := range slices.Sorted(maps.Keys(gaps)) {
		if now.Sub(gaps[signal].since) >= max(p.Transition, unknownAfter) {
			c := p.kind(signal).condition
			names[c] = append(names[c], string(signal))
		}
	}
	out := map[v1.NodeConditionType]string{}
	for c, list := range names {
		out[c] = strings.Join(list, ", ") + " cannot be read"
	}
	return out
}

// unreadProblems returns the node's signals that have not been read for some time. [observers] has those of the
// embedding program.
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
