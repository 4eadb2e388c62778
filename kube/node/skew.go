package node

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// skewLimit is how far apart clocks may be (KN10).
const skewLimit = 10 * time.Second

// Skew compares this machine's clock with the API server's, using the Date header of its answers, and
// notes which calls are answered, so that a busy API server is not taken for a dead connection (KN9).
// Wrap the transport of the clients with [Skew.Wrap] and pass the Skew to [New]. The zero value is
// ready to use, and all methods are safe for concurrent use.
type Skew struct {
	// Clock is this machine's time. Nil means the real clock.
	Clock clock.PassiveClock

	mu  sync.Mutex
	off time.Duration
	// told says whether the clocks were last reported to differ.
	told bool
}

// Wrap returns a transport that reads the answers of inner. It is a
// k8s.io/client-go/transport.WrapperFunc.
func (s *Skew) Wrap(inner http.RoundTripper) http.RoundTripper { return &skewed{skew: s, inner: inner} }

// ahead returns how far the API server's clock is ahead of this machine's; negative if it is behind,
// 0 if the difference is too small to tell.
func (s *Skew) ahead() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.off
}

type skewed struct {
	skew  *Skew
	inner http.RoundTripper
	// answers counts the answers to all requests. Each client has its own transport, and so its own
	// connections: an answer to one client says nothing about the connections of another.
	answers atomic.Int64
}

// route is the transport that a call takes, and how many answers that had before.
type route struct {
	mu     sync.Mutex
	over   *skewed
	before int64
}

// routeKey is the key of a context's route.
type routeKey struct{}

// routed returns a context for one call whose route is recorded.
func routed(ctx context.Context) (context.Context, *route) {
	way := &route{}
	return context.WithValue(ctx, routeKey{}, way), way
}

func (w *route) take(t *skewed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over == nil {
		w.over, w.before = t, t.answers.Load()
	}
}

// silent reports whether a request was sent, and nothing has come over its transport since.
func (w *route) silent() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over != nil && w.over.answers.Load() == w.before
}

// RoundTrip implements [http.RoundTripper].
func (t *skewed) RoundTrip(request *http.Request) (*http.Response, error) {
	if way, ok := request.Context().Value(routeKey{}).(*route); ok {
		way.take(t)
	}
	now := t.skew.clock().Now
	sent := now()
	response, err := t.inner.RoundTrip(request)
	if err != nil {
		return response, err
	}
	t.answers.Add(1)
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		t.skew.note(offset(sent, now(), date))
	}
	return response, nil
}

func (s *Skew) clock() clock.PassiveClock {
	if s.Clock == nil {
		return clock.RealClock{}
	}
	return s.Clock
}

// offset is the least by which a date that was written between sent and received is off. The date
// has whole seconds.
func offset(sent, received, date time.Time) time.Duration {
	// Without the monotonic readings: only the wall clock matters.
	sent, received = sent.Round(0), received.Round(0)
	switch {
	case date.After(received):
		return date.Sub(received)
	case date.Add(time.Second).Before(sent):
		return date.Add(time.Second).Sub(sent)
	}
	return 0
}

func (s *Skew) note(off time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.off = off
}

// turned returns the skew, 0 if it is within the limit, and whether it has crossed the limit since
// the last call.
func (s *Skew) turned() (off time.Duration, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	beyond := s.off.Abs() > skewLimit
	changed = beyond != s.told
	s.told = beyond
	if beyond {
		off = s.off
	}
	return off, changed
}
