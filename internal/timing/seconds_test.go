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

// FuzzSeconds: whatever a manifest asks for keeps its sign and its order, is exact up to the
// longest duration, and two of them can be added.
func FuzzSeconds(f *testing.F) {
	for _, n := range []int64{0, 1, -1, math.MaxInt32, math.MaxInt64 / int64(time.Second), math.MaxInt64/int64(time.Second) + 1, math.MaxInt64, math.MinInt64} {
		f.Add(n, -n)
	}
	f.Fuzz(func(t *testing.T, a, b int64) {
		x, y := Seconds(a), Seconds(b)
		if a <= b && x > y || a >= b && x < y {
			t.Errorf("%d s is %v, %d s is %v", a, x, b, y)
		}
		if got := int64(x / time.Second); got != a && x != longest && x != -longest {
			t.Errorf("%d s is %v", a, x)
		}
		if x > 0 != (a > 0) || x < 0 != (a < 0) {
			t.Errorf("%d s is %v", a, x)
		}
		if sum := x + y; x > 0 && y > 0 && sum < x || x < 0 && y < 0 && sum > x {
			t.Errorf("%v and %v are %v", x, y, sum)
		}
	})
}
