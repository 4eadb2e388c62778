package timing

import (
	"context"
	"time"
)

// Sleep returns nil once d has passed on the clock, or the error of ctx if that ends first. For 0 or
// less it returns at once.
func Sleep(ctx context.Context, c Clock, d time.Duration) error {
	if d <= 0 {
		// Timers that are due when they are made, in several goroutines of a synctest bubble, crash Go
		// 1.26's race detector (go.dev/issue/78156).
		return ctx.Err()
	}
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
