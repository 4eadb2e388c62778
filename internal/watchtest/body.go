package watchtest

import (
	"runtime"
	"sync"
	"testing"
)

// T is the [testing.T] of a body. A part of a case that was left behind ends at its next report once the test waits for no
// other part, because the test may be over by then. It is safe for concurrent use.
type T struct {
	*testing.T

	mu       sync.Mutex
	left     bool
	cleanups []func()
}

// abandon reports a hang and leaves the part behind. It runs on the test's own goroutine, which may
// report a clean-up that hangs as well.
func (w *T) abandon(why string) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.T.Error(why)
	w.left = true
}

// attend makes reports count again, for the next part of the case. What an earlier part that was left behind reports while
// the test waits for this one counts too.
func (w *T) attend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = false
}

// report reports to the test as long as the test waits for the body.
func (w *T) report(f func()) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock() // Fatal ends the goroutine
	if w.left {
		runtime.Goexit()
	}
	f()
}

// Cleanup makes f be called when the body ends, before the clean-ups of the test itself.
func (w *T) Cleanup(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cleanups = append(w.cleanups, f)
}

// nextCleanup takes the clean-up that was registered last, or nil.
func (w *T) nextCleanup() func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.cleanups)
	if n == 0 {
		return nil
	}
	f := w.cleanups[n-1]
	w.cleanups = w.cleanups[:n-1]
	return f
}

// Error reports a failure.
func (w *T) Error(args ...any) {
	w.Helper()
	w.report(func() { w.Helper(); w.T.Error(args...) })
}

// Errorf reports a failure.
func (w *T) Errorf(format string, args ...any) {
	w.Helper()
	w.report(func() { w.Helper(); w.T.Errorf(format, args...) })
}

// Fatal reports a failure and ends the body.
func (w *T) Fatal(args ...any) {
	w.Helper()
	w.report(func() { w.Helper(); w.T.Fatal(args...) })
}

// Fatalf reports a failure and ends the body.
func (w *T) Fatalf(format string, args ...any) {
	w.Helper()
	w.report(func() { w.Helper(); w.T.Fatalf(format, args...) })
}

// FailNow fails the test and ends the body.
func (w *T) FailNow() { w.report(w.T.FailNow) }

// Fail fails the test.
func (w *T) Fail() { w.report(w.T.Fail) }

// Skip skips the test and ends the body.
func (w *T) Skip(args ...any) {
	w.Helper()
	w.report(func() { w.Helper(); w.T.Skip(args...) })
}

// Skipf skips the test and ends the body.
func (w *T) Skipf(format string, args ...any) {
	w.Helper()
	w.report(func() { w.Helper(); w.T.Skipf(format, args...) })
}

// SkipNow skips the test and ends the body.
func (w *T) SkipNow() { w.report(w.T.SkipNow) }

// Log adds to the test's log.
func (w *T) Log(args ...any) {
	w.Helper()
	w.report(func() { w.Helper(); w.T.Log(args...) })
}

// Logf adds to the test's log.
func (w *T) Logf(format string, args ...any) {
	w.Helper()
	w.report(func() { w.Helper(); w.T.Logf(format, args...) })
}
