package cleanup

import (
	"errors"
	"time"
)

// Rates bounds how much is removed per second, so that housekeeping never starves the runtime or
// the disk (DR6). What exceeds a rate waits for a later pass. The zero value takes the defaults.
type Rates struct {
	// Containers bounds the removal of dead containers and sandboxes, and of the contents of gone
	// pods. 0 means 50, negative means no bound.
	Containers int
	// Directories bounds the removal of pod folders and log folders. 0 means 10, negative means no
	// bound.
	Directories int
}

// Defaults of [Rates].
const (
	defaultContainerRate = 50
	defaultDirectoryRate = 10
	// rateSpan is how long an unused rate accumulates: about the time between passes.
	rateSpan = 2 * time.Second
)

func (r *Rates) complete() error {
	if r.Containers == 0 {
		r.Containers = defaultContainerRate
	}
	if r.Directories == 0 {
		r.Directories = defaultDirectoryRate
	}
	if r.Containers > 1e6 || r.Directories > 1e6 {
		return errors.New("Rates must be at most a million per second: use a negative number for no limit")
	}
	return nil
}

// buckets returns a bucket for each bounded step.
func (r *Rates) buckets() map[Step]*bucket {
	out := map[Step]*bucket{}
	for step, rate := range map[Step]int{
		StepContent: r.Containers, StepContainers: r.Containers, StepSandboxes: r.Containers,
		StepLogs: r.Directories, StepDirectories: r.Directories,
	} {
		if rate > 0 {
			out[step] = &bucket{rate: float64(rate)}
		}
	}
	return out
}

// bucket gains rate tokens a second, up to what rateSpan yields.
type bucket struct {
	rate, tokens float64
	filled       time.Time
}

// has reports whether there is a token. A nil bucket never limits.
func (b *bucket) has(now time.Time) bool {
	if b == nil {
		return true
	}
	since := now.Sub(b.filled)
	if b.filled.IsZero() || since < 0 || since > rateSpan {
		since = rateSpan
	}
	b.tokens, b.filled = min(b.rate*rateSpan.Seconds(), b.tokens+b.rate*since.Seconds()), now
	return b.tokens >= 1
}

// take uses up the token that [bucket.has] has reported.
func (b *bucket) take() {
	if b != nil {
		b.tokens--
	}
}
