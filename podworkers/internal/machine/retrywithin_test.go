package machine

import (
	"math"
	"testing"
	"time"
)

// TestRetryWithinBoundsTheBackOff: IN15. An error may bound the pause of the back-off before
// jitter. It does not make a short pause longer. A moment that another error names is one of the
// two: the earlier counts.
func TestRetryWithinBoundsTheBackOff(t *testing.T) {
	m := New(Config{SetupBackOff: BackOff{Initial: time.Second, Max: 5 * time.Minute}, SyncFrequency: time.Minute})
	m.rand = func() float64 { return 0 }
	for _, test := range []struct {
		attempts uint8
		result   Result
		want     time.Duration
	}{
		{1, Result{RetryWithin: 10 * time.Second}, time.Second},
		{4, Result{RetryWithin: 10 * time.Second}, 8 * time.Second},
		{5, Result{RetryWithin: 10 * time.Second}, 10 * time.Second},
		{200, Result{RetryWithin: 10 * time.Second}, 10 * time.Second},
		{200, Result{}, 5 * time.Minute},
		{200, Result{Retry: RetryExplicit, RetryAfter: 20 * time.Second, RetryWithin: 10 * time.Second}, 10 * time.Second},
		{200, Result{Retry: RetryExplicit, RetryAfter: 5 * time.Minute, RetryWithin: 10 * time.Second}, 10 * time.Second},
		{200, Result{Retry: RetryExplicit, RetryAfter: 5 * time.Second, RetryWithin: 10 * time.Second}, 5 * time.Second},
		{3, Result{Retry: RetryExplicit, RetryAfter: 5 * time.Minute, RetryWithin: 10 * time.Second}, 4 * time.Second},
		{3, Result{Retry: RetryExplicit, RetryAfter: 5 * time.Minute, RetryWithin: math.MaxInt64}, 4 * time.Second},
		{200, Result{Retry: RetryExplicit, RetryAfter: 5 * time.Minute, RetryWithin: math.MaxInt64}, time.Minute},
		{200, Result{RetryWithin: math.MaxInt64}, 5 * time.Minute},
		{3, Result{Retry: RetryExplicit, RetryAfter: 5 * time.Minute}, time.Minute},
		// A named moment in the past causes an immediate retry, but only once.
		{1, Result{Retry: RetryExplicit}, 0},
		{1, Result{Retry: RetryExplicit, RetryAfter: -time.Second}, 0},
		{2, Result{Retry: RetryExplicit}, time.Second},
		{2, Result{Retry: RetryExplicit, RetryAfter: -time.Second}, time.Second},
		{2, Result{Retry: RetryExplicit, RetryAfter: time.Millisecond}, time.Millisecond},
		{2, Result{Retry: RetryExplicit, RetryAfter: time.Hour}, time.Minute},
	} {
		if got, _ := m.delay(&record{attempts: test.attempts}, &Call{Phase: Setup}, &test.result); got != test.want {
			t.Errorf("%+v after %d failures: %v, want %v", test.result, test.attempts, got, test.want)
		}
	}
}
