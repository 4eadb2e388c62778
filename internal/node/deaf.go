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
// reads. A panic is an error.
func answered[T any](ctx context.Context, c clock.Clock, name string, f func(ctx context.Context) (T, error)) (T, error) {
	type answer struct {
		got T
		err error
	}
	answers := make(chan answer, 1) // so that a late one needs no reader
	go func() {
		var a answer
		var unlisted *foreign.Calls // it only contains panics
		a.err = unlisted.Contain(foreign.Call{Kind: problem.RuntimeCall, Name: name}, func() (err error) {
			a.got, err = f(ctx)
			return err
		})
		answers <- a
	}()
	select {
	case a := <-answers:
		return a.got, a.err
	case <-ctx.Done():
	}
	timer := c.NewTimer(deafAfter)
	defer timer.Stop()
	select {
	case a := <-answers:
		return a.got, a.err
	case <-timer.C():
		var none T
		return none, fmt.Errorf("%s: %w: %w", name, errDeaf, context.Cause(ctx))
	}
}
