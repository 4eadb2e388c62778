package watchtest

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/podwright/podwright/internal/timing"
)

// Limits say how long a case may take.
type Limits struct {
	// Clock measures them. It must advance by itself.
	Clock timing.Clock
	// Body limits the body, Cleanup each clean-up after it.
	Body, Cleanup time.Duration
	// Subject names what a body waits for when it hangs, such as "the runtime".
	Subject string
}

// Patience is how long a call may continue after its context has ended.
const Patience = 10 * time.Second

// RunContext is [Run] for a body with a context that ends when its time is over; the body may
// continue for [Patience] after that.
func RunContext(t *testing.T, l Limits, body func(context.Context, *T)) {
	t.Helper()
	timeout := l.Body
	l.Body += Patience
	Run(t, l, func(w *T) {
		ctx, cancel := timing.WithTimeout(t.Context(), l.Clock, timeout)
		w.Cleanup(cancel)
		body(ctx, w)
	})
}

// Run runs a body and then its clean-ups, last registered first, as t. It returns once they have
// ended; each one that exceeds its limit fails t and is left behind. A body that ends itself, as Fatal
// and Skip do, also ends the caller, after the clean-ups.
func Run(t *testing.T, l Limits, body func(*T)) {
	t.Helper()
	w := &T{T: t}
	ended := w.watch(l, "the case", l.Body, body)
	for {
		cleanup := w.nextCleanup()
		if cleanup == nil {
			break
		}
		w.watch(l, "a clean-up", l.Cleanup, func(*T) { cleanup() })
	}
	if ended == itself {
		runtime.Goexit() // t already knows that it has ended
	}
}

// end says how a part of a case ended.
type end int

const (
	normal end = iota
	// itself: by Fatal, Skip and the like.
	itself
	// hung: it is still running.
	hung
)

// watch runs a part of the case and reports it if it hangs.
func (w *T) watch(l Limits, what string, limit time.Duration, body func(*T)) end {
	w.Helper()
	w.attend()
	done := make(chan any, 1)
	go pprof.Do(w.Context(), pprof.Labels(label, w.Name()), func(context.Context) {
		result := any(itself)
		defer func() {
			if p := recover(); p != nil {
				result = crash{p, debug.Stack()}
			}
			done <- result
		}()
		body(w)
		result = normal
	})
	timer := l.Clock.NewTimer(limit)
	defer timer.Stop()
	select {
	case result := <-done:
		if c, ok := result.(crash); ok {
			// In the test's goroutine, where the testing package can name the test.
			panic(fmt.Sprintf("%s of %s: %v\n%s", what, w.Name(), c.value, c.stack))
		}
		return result.(end)
	case <-timer.C():
		w.abandon(fmt.Sprintf("%s of %s has not ended within %v: %s ignores its context, or does not return. Left behind at:\n%s",
			what, w.Name(), limit, l.Subject, stacks(w.Name())))
		return hung
	}
}

// crash is a panic of a body.
type crash struct {
	value any
	stack []byte
}

// label marks the goroutines of a case.
const label = "podwright-case"

// stacks returns the stacks of the goroutines that a case has started.
func stacks(name string) string {
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		return err.Error()
	}
	var ours []string
	for group := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(group, fmt.Sprintf("%q:%q", label, name)) {
			ours = append(ours, group)
		}
	}
	return strings.Join(ours, "\n\n")
}
