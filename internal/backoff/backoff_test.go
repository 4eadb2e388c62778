package backoff_test

import (
	"math"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/podwright/podwright/internal/backoff"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDelayDoublesUpToTheLongest(t *testing.T) {
	for n, want := range map[int]time.Duration{
		-1: 0, 0: 0, 1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 4: 5 * time.Second, 5: 5 * time.Second,
		1 << 20: 5 * time.Second, math.MaxInt: 5 * time.Second,
	} {
		if got := backoff.Delay(time.Second, 5*time.Second, n); got != want {
			t.Errorf("after %d failures %s, want %s", n, got, want)
		}
	}
	if got := backoff.Delay(time.Minute, time.Second, 1); got != time.Second {
		t.Errorf("a first delay above the longest is %s, want 1s", got)
	}
	if got := backoff.Delay(time.Second, math.MaxInt64, 100); got != math.MaxInt64 {
		t.Errorf("without a limit %s", got)
	}
}

func TestNextFollowsDelay(t *testing.T) {
	last := time.Duration(0)
	for n := 1; n < 100; n++ {
		last = backoff.Next(100*time.Millisecond, 7*time.Second, last)
		if want := backoff.Delay(100*time.Millisecond, 7*time.Second, n); last != want {
			t.Fatalf("delay %d is %s, want %s", n, last, want)
		}
	}
	if got := backoff.Next(time.Second, time.Minute, time.Millisecond); got != time.Second {
		t.Errorf("after a delay shorter than the first %s, want 1s", got)
	}
	if got := backoff.Next(time.Second, math.MaxInt64, math.MaxInt64-1); got != math.MaxInt64 {
		t.Errorf("overflow: %s", got)
	}
}

func TestGrowTakesAnyFactor(t *testing.T) {
	for n, want := range map[int]time.Duration{1: 10 * time.Second, 2: 15 * time.Second, 3: 22500 * time.Millisecond, 4: 30 * time.Second} {
		if got := backoff.Grow(10*time.Second, 30*time.Second, 1.5, n); got != want {
			t.Errorf("delay %d is %s, want %s", n, got, want)
		}
	}
	for _, factor := range []float64{1, 0.5, 0, -2} {
		if got := backoff.Grow(time.Second, time.Minute, factor, 9); got != time.Second {
			t.Errorf("factor %v: %s, want 1s", factor, got)
		}
	}
}
