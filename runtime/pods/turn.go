package pods

import (
	"context"
	"time"

	"k8s.io/utils/clock"

	"github.com/podwright/podwright/runtime/pods/internal/meta"
)

// turn is what a sidecar waits for before it stops: the app containers and the
// next later sidecar, so that sidecars stop in reverse order after those they
// serve (spec/runtime.md 16.4).
type turn struct {
	after []<-chan struct{}
}

// turnOf returns what t waits for among all that are being stopped; nil if it
// does not wait. Containers that do not run do not delay it.
func turnOf(t *target, all []*target) *turn {
	if t.kind != meta.Sidecar {
		return nil
	}
	var out turn
	var next *target
	for _, other := range all {
		switch {
		case other.kind == meta.App:
			out.after = append(out.after, other.finished)
		case other.kind == meta.Sidecar && other.index > t.index && (next == nil || other.index < next.index):
			next = other
		}
	}
	if next != nil {
		out.after = append(out.after, next.finished)
	}
	if len(out.after) == 0 {
		return nil
	}
	return &out
}

// wait returns when the turn has come, limit is over or ctx has ended. It returns
// how long that took.
func (t *turn) wait(ctx context.Context, c clock.Clock, limit time.Duration) time.Duration {
	began := c.Now()
	timer := c.NewTimer(limit)
	defer timer.Stop()
	for _, gone := range t.after {
		select {
		case <-gone:
		case <-timer.C():
			return c.Since(began)
		case <-ctx.Done():
			return c.Since(began)
		}
	}
	return c.Since(began)
}
