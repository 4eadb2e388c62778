package timing

import (
	"context"
	"time"
)

// Sleep returns nil once d has passed on the clock, or the error of ctx if that ends first.
func Sleep(ctx context.Context, c Clock, d time.Duration) error {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
