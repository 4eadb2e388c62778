package timing

import (
	"math"
	"testing"
	"time"
)

// TestSecondsNeverOverflow: what a manifest asks for is a long time, however long it is.
func TestSecondsNeverOverflow(t *testing.T) {
	for n, want := range map[int64]time.Duration{
		0: 0, 1: time.Second, -1: -time.Second, 3600: time.Hour, 10_000_000_000: longest, math.MaxInt64: longest, math.MinInt64: -longest,
	} {
		if got := Seconds(n); got != want {
			t.Errorf("%d s: %v, want %v", n, got, want)
		}
	}
}
