package timing

import (
	"cmp"
	"context"
	"time"
)

// Patience is how long a call that usually returns soon holds up the next one. A call that hangs
// costs the others no more than this (IN1).
const Patience = 50 * time.Millisecond

// Batch lets calls begin one after the other, each as soon as the one before it has returned; after its
// patience it stops waiting. Whenever a call does not return by then, four times as many begin
// together from then on, so that many hanging calls delay the others only briefly. Each call has
// its own goroutine, for which the caller waits in the end. A batch with a clock is ready for use
// by one goroutine at a time.
type Batch struct {
	// Clock is required.
	Clock Clock
	// Patience is how long a call holds up the next one; many calls that share a short time need less
	// than usual. 0: [Patience].
	Patience time.Duration

	size  int // 0: 1
	begun []<-chan struct{}
}

// batchGrowth is the factor by which more calls begin together after one that does not return.
const batchGrowth = 4

// Add takes a call that has begun and that closes done when it returns. If this completes the
// batch, Add waits for the batch's calls, for its patience at most and no longer than ctx lasts, and
// returns true.
func (b *Batch) Add(ctx context.Context, done <-chan struct{}) (waited bool) {
	b.begun = append(b.begun, done)
	if len(b.begun) < b.size {
		return false
	}
	b.Wait(ctx)
	return true
}

// Wait waits for the calls that have begun since the last wait, as Add does.
func (b *Batch) Wait(ctx context.Context) {
	if len(b.begun) == 0 {
		return
	}
	timer := b.Clock.NewTimer(cmp.Or(b.Patience, Patience))
	defer timer.Stop()
	for _, done := range b.begun {
		select {
		case <-done:
			continue
		case <-timer.C():
			b.size = batchGrowth * max(b.size, 1)
		case <-ctx.Done():
		}
		break
	}
	b.begun = nil
}
