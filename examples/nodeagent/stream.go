package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"
)

// How many answers without an end there may be at once: for those that watch, follow or run a
// command, for orders, and for drains. One kind does not keep another out.
const (
	maxStreams = 64
	maxOrders  = 64
	maxDrains  = 16
)

// slots bounds answers without an end.
type slots struct {
	taken chan struct{}
	full  string // the refusal
}

func newSlots(most int, full string) slots { return slots{make(chan struct{}, most), full} }

// enter takes a slot, which the caller has to leave, or refuses the client.
func (s slots) enter(a *agent, w http.ResponseWriter) bool {
	select {
	case s.taken <- struct{}{}:
		return true
	default:
		a.fail(w, http.StatusServiceUnavailable, errors.New(s.full))
		return false
	}
}

func (s slots) leave() { <-s.taken }

// sendTimeout is how long a client may take to read a piece before it is cut off.
const sendTimeout = 30 * time.Second

// lastWords is how long a client may take to read the end of an answer when the agent ends.
const lastWords = time.Second

// errorTrailer comes after an answer that is not whole, and says why, if the client takes trailers.
const errorTrailer = "Nodeagent-Error"

// stream serves an answer that may last as long as the agent runs. The context of send ends when
// the client disconnects or the agent ends. A client that does not read is cut off; it delays only
// its own answer.
func (a *agent) stream(w http.ResponseWriter, r *http.Request, contentType string, send func(ctx context.Context, out *streamWriter) error) {
	a.streamIn(a.streams, w, r, contentType, send)
}

// streamIn is stream in one of the given slots.
func (a *agent) streamIn(
	s slots, w http.ResponseWriter, r *http.Request, contentType string, send func(ctx context.Context, out *streamWriter) error,
) {
	if !s.enter(a, w) {
		return
	}
	defer s.leave()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Time{}); err != nil { // the answer may last for as long as the agent
		a.fail(w, http.StatusInternalServerError, err)
		return
	}
	out := &streamWriter{w: w, control: control, contentType: contentType}
	defer context.AfterFunc(a.over, func() {
		cancel()
		out.hurry()
	})()
	if err := send(ctx, out); err != nil {
		_ = out.extend() // the last piece, or the request, may be long ago; a client that has gone misses nothing
		if !out.begun {
			a.failure(w, err)
			return
		}
		a.log.Debug("A stream ended early", "path", r.URL.Path, "error", err.Error())
		if a.over.Err() != nil || !strings.Contains(r.Header.Get("TE"), "trailers") {
			panic(http.ErrAbortHandler) // tells the client that the answer is incomplete
		}
		_, text := statusOf(err)
		w.Header().Set(http.TrailerPrefix+errorTrailer, printable(text))
		return
	}
	out.begin()
	_ = out.flush() // a client that has gone misses nothing
}

// streamWriter writes the pieces of an answer, each within sendTimeout.
type streamWriter struct {
	w           http.ResponseWriter
	control     *http.ResponseController
	contentType string
	begun       bool

	mu      sync.Mutex
	hurried bool
}

// hurry gives the client a moment for the piece being sent, and for the last ones.
func (s *streamWriter) hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hurried = true
	_ = s.control.SetWriteDeadline(time.Now().Add(lastWords)) // fails on a connection that is closed
}

// extend gives the client time for the next piece.
func (s *streamWriter) extend() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hurried {
		return nil
	}
	return s.control.SetWriteDeadline(time.Now().Add(sendTimeout))
}

func (s *streamWriter) begin() {
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", s.contentType)
		s.w.WriteHeader(http.StatusOK)
	}
}

// Write implements [io.Writer].
func (s *streamWriter) Write(p []byte) (int, error) {
	s.begin()
	if err := s.extend(); err != nil {
		return 0, err
	}
	return s.w.Write(p)
}

// send writes a piece and flushes it.
func (s *streamWriter) send(piece []byte) error {
	if _, err := s.Write(piece); err != nil {
		return err
	}
	return s.flush()
}

// flush sends what was written.
func (s *streamWriter) flush() error {
	s.begin()
	if err := s.extend(); err != nil {
		return err
	}
	return s.control.Flush()
}
