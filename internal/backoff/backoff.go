package backoff

import (
	"math"
	"time"
)

// Delay returns the delay after n failures in a row: first after one failure, doubling with each
// further one, at most longest. It is zero for n < 1.
func Delay(first, longest time.Duration, n int) time.Duration { return Grow(first, longest, 2, n) }

// Next returns the delay that follows previous: first after zero, otherwise twice
// the previous one, at most longest.
func Next(first, longest, previous time.Duration) time.Duration {
	if previous <= 0 {
		return min(first, longest)
	}
	return min(max(Delay(previous, longest, 2), first), longest)
}

// Grow is [Delay] with a factor other than two. A factor below one counts as one.
func Grow(first, longest time.Duration, factor float64, n int) time.Duration {
	if n < 1 {
		return 0
	}
	d := float64(first) * math.Pow(max(factor, 1), float64(n-1))
	if d >= float64(longest) {
		return longest
	}
	return time.Duration(d)
}
