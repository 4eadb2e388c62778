package node

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/problem"
)

// deafAfter is how long a call may take to return once its context has ended: one that hears gives its
// own reason, which says more than that the context has ended.
const deafAfter = 100 * time.Millisecond

// answered makes a call whose caller must go on when ctx ends, even if f ignores that. The goroutine
// of such a call is lost: what it returns later goes nowhere, so f must not write to what its caller
// reads. A panic is an error. Unlike the calls of [Users], it is made whether or not one before it has
// returned: the runtime may answer the second one. Once ctx has ended it is not made at all.
func answered[T any](ctx context.Context, c clock.Clock, name string, f func(ctx context.Context) (T, error)) (T, error) {
	if ctx.Err() != nil {
		var none T
		return none, fmt.Errorf("%s: %w", name, context.Cause(ctx))
	}
	return foreign.Ask(ctx, foreign.New(c), foreign.Call{Kind: problem.RuntimeCall, Name: name}, foreign.Limits{Late: deafAfter}, f)
}

// attempt is answered for a call that returns only an error.
func attempt(ctx context.Context, c clock.Clock, name string, f func(ctx context.Context) error) error {
	_, err := answered(ctx, c, name, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
	return err
}
