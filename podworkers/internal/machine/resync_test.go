package machine

import (
	"testing"
	"time"
)

// TestResync: section 12: a success may name the moment of the next call. One that has passed waits
// pastDelay, so that the calls do not follow each other without a pause; one that is not before the
// resync does not replace it.
func TestResync(t *testing.T) {
	m := New(Config{SyncFrequency: time.Minute})
	m.rand = func() float64 { return 0.5 }
	resync := m.regular()
	if resync <= time.Minute {
		t.Fatalf("a resync after %v cannot be told from a requeue after a minute", resync)
	}
	for _, row := range []struct {
		name   string
		result Result
		pause  time.Duration
		why    Why
	}{
		{"none named", Result{}, resync, WhyResync},
		{"passed", Result{Requeue: true, RetryAfter: -time.Hour}, pastDelay, WhyRequeue},
		{"now", Result{Requeue: true}, pastDelay, WhyRequeue},
		{"soon", Result{Requeue: true, RetryAfter: 1}, 1, WhyRequeue},
		{"just before the resync", Result{Requeue: true, RetryAfter: time.Minute - 1}, time.Minute - 1, WhyRequeue},
		{"the resync's period", Result{Requeue: true, RetryAfter: time.Minute}, resync, WhyResync},
		{"later", Result{Requeue: true, RetryAfter: time.Hour}, resync, WhyResync},
	} {
		if _, pause, why := m.resync(&record{}, &row.result); pause != row.pause || why != row.why {
			t.Errorf("%s: %v (%v), want %v (%v)", row.name, pause, why, row.pause, row.why)
		}
	}
}
