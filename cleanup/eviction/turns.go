package eviction

import (
	"context"
	"time"

	"github.com/podwright/podwright/internal/timing"
)

// turnLimit is how long a turn lasts at most.
const turnLimit = 10 * time.Second

// turns bound how much is done at once. Whoever is slow or stuck, as on a mount whose server is gone,
// goes on without its turn after [turnLimit], and does not stop the others. No turns are no bound.
type turns struct {
	clock timing.Clock
	taken chan struct{}
}

func newTurns(c timing.Clock, n int) *turns {
	return &turns{clock: c, taken: make(chan struct{}, n)}
}

// take waits for a turn, which give ends; give may be called more than once.
func (t *turns) take(ctx context.Context) (give func(), err error) {
	if t == nil {
		return func() {}, nil
	}
	select {
	case t.taken <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	lent, give := timing.WithTimeout(ctx, t.clock, turnLimit)
	context.AfterFunc(lent, func() { <-t.taken })
	return give, nil
}
