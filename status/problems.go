package status

import (
	"fmt"
	"time"

	"github.com/podwright/podwright/internal/problem"
)

// Problems returns the sinks that fail or do not answer. A status that waits needs no action: sends
// are repeated until they succeed.
func (m *Manager) Problems() []problem.Problem {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.options.Clock.Now()
	var out []problem.Problem
	for _, s := range m.senders {
		p := problem.Problem{
			Kind: problem.Sink, Severity: problem.Listed, Name: s.name,
			Advice: "look at what the sink writes to; statuses are sent again until it takes them",
		}
		if s.failing > 0 {
			failing := p
			failing.Since, failing.Waits = s.failingSince, fmt.Sprintf("the sink to take the statuses of %d pods", s.failing)
			out = append(out, failing.Because(&SinkError{Sink: s.name, Pods: s.failing, Since: s.failingSince, Err: s.lastErr}))
		}
		if n, since := s.slow(now.Add(-problem.SendLimit)); n > 0 {
			p.Since, p.Waits = since, fmt.Sprintf("the sink to answer for %d pods", n)
			out = append(out, p)
		}
	}
	return out
}

// slow returns how many sends began before then and have not returned, and when the first of them
// began. The manager's lock is held.
func (s *sender) slow(then time.Time) (n int, since time.Time) {
	if s.flights.all == 0 {
		return 0, since
	}
	for _, d := range s.pods {
		if d.state != sending || d.flight.began.After(then) {
			continue
		}
		if n == 0 || d.flight.began.Before(since) {
			since = d.flight.began
		}
		n++
	}
	return n, since
}
