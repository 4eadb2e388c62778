package probe_test

import (
	"context"
	"time"

	"github.com/podwright/podwright/probe"
)

// slow succeeds after a while.
func slow(d time.Duration) func(context.Context, probe.Target) (probe.Outcome, error) {
	return func(ctx context.Context, _ probe.Target) (probe.Outcome, error) {
		select {
		case <-time.After(d):
			return good, nil
		case <-ctx.Done():
			return probe.Outcome{}, context.Cause(ctx)
		}
	}
}
