package images

import "time"

// limiter is a bucket with a token for each pull that begins. It fills at a rate and
// holds at most burst tokens (spec/runtime.md 9.5).
type limiter struct {
	rate, burst, tokens float64
	last                time.Time
}

// newLimiter returns a full bucket; a rate of 0 means no limit.
func newLimiter(rate float64, burst int) limiter {
	b := float64(max(burst, 1))
	return limiter{rate: rate, burst: b, tokens: b}
}

// take takes a token and reports whether there was one.
func (l *limiter) take(now time.Time) bool {
	if l.rate <= 0 {
		return true
	}
	if passed := now.Sub(l.last); !l.last.IsZero() && passed > 0 {
		l.tokens = min(l.burst, l.tokens+passed.Seconds()*l.rate)
	}
	l.last = now
	if l.tokens < 1 {
		return false
	}
	l.tokens--
	return true
}
