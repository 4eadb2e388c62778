package foreign

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/podwright/podwright/internal/timing"
)

// UnansweredError says that a function has not returned yet. Whatever depends on its answer will be
// retried.
type UnansweredError struct {
	// Name is the function's name, Since when it was called, Waited how long ago that was.
	Name   string
	Since  time.Time
	Waited time.Duration
	// NotCalled: it was not even called for this subject, because too many calls for others have not
	// returned. Since is then when it was asked for.
	NotCalled bool
}

// Error says which function has not returned, and since when.
func (e *UnansweredError) Error() string {
	if e.NotCalled {
		return fmt.Sprintf("%s is not called for this now: too many calls for others have not returned", e.Name)
	}
	return fmt.Sprintf("%s, called at %s, has not returned", e.Name, e.Since.UTC().Format(time.RFC3339))
}

// Limits are the limits of a question.
type Limits struct {
	// Wait is how long the caller waits for the answer; 0: until its context ends.
	Wait time.Duration
	// Join: a caller that comes while the function is being called for the same, unchanged subject
	// waits for that answer. Otherwise it continues without one.
	Join bool
	// Keep: a late answer is given to the next caller that joins, as by [Quick].
	Keep bool
	// Late is how long the caller waits on once the function's context has ended: a function that heard
	// it may say what it has found until then, or why it failed.
	Late time.Duration
	// Bounded: while too many calls of the function do not return, it is called for other subjects only
	// now and then, as by [Quick].
	Bounded bool
}

// ErrDeaf is why a goroutine is lost.
var ErrDeaf = errors.New("a function has not returned although its context has ended")

// Ask calls f on a new goroutine and waits for its answer until ctx ends or the wait is over; then
// the error is a [*UnansweredError], or that of ctx. A panic is returned as a [*PanicError].
//
// f gets a context that ends with ctx, or when the caller no longer waits. Until f has returned, it
// is not called again for the same subject. The goroutine of a function that never returns is lost;
// see [Calls.Leave].
func Ask[T any](ctx context.Context, c *Calls, call Call, limits Limits, f func(ctx context.Context) (T, error)) (T, error) {
	for {
		got, again, err := askOnce(ctx, c, call, limits, f)
		if again && ctx.Err() == nil {
			continue
		}
		if cause := context.Cause(ctx); cause != nil && errors.As(err, new(*UnansweredError)) {
			if limits.Late > 0 {
				cause = fmt.Errorf("%w: %w", ErrDeaf, cause)
			}
			err = fmt.Errorf("%s: %w", call.Name, cause)
		}
		return got, err
	}
}

// askOnce is Ask, except that it may join another caller's question; again says that the joined
// question was told to end.
func askOnce[T any](
	ctx context.Context, c *Calls, call Call, limits Limits, f func(ctx context.Context) (T, error),
) (got T, again bool, err error) {
	q, turn := c.question(call, limits.Keep, limits.Bounded)
	own, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if turn == begins {
		c.start(call, q, nil, answerOf(call, func() (T, error) { return f(own) }))
	}
	if turn == begins || turn == joins && limits.Join {
		c.await(ctx.Done(), q, limits.Wait)
	}
	if turn == begins && limits.Late > 0 && !timing.Ended(q.done) {
		cancel(context.DeadlineExceeded)
		c.await(nil, q, limits.Late)
	}
	got, err = heard[T](c, q, turn)
	return got, turn == joins && limits.Join && c.wasCut(q), err
}

// Quick is Ask for a caller with others to serve: it waits for 10 ms, and not at all if it has
// already waited for the function in vain too often. A late answer is given to the next caller that
// asks about the same subject within 30 s, unless the subject has changed or the question was not
// repeated for 30 s. late, unless nil, is called on the function's goroutine when such an answer comes.
// While 1,024 calls of the function or more do not return, each further one that does not closes it to
// other subjects for a while, and the [*UnansweredError] of their callers says so. The first answer
// opens it; without one, it is called once after a pause of 1 s, doubling to 10 min.
func Quick[T any](c *Calls, call Call, late func(), f func() (T, error)) (T, error) {
	q, turn := c.question(call, true, true)
	if turn == begins {
		c.start(call, q, late, answerOf(call, f))
	}
	if wait := promptly - c.clock.Since(q.since); (turn == begins || turn == joins) && wait > 0 && c.patient(call) {
		c.await(nil, q, wait)
		if turn == begins {
			c.waited(call, q)
		}
	}
	return heard[T](c, q, turn)
}

// answerOf contains f: a panic becomes an error, and so does the end of the goroutine. An answer is
// given whatever f does.
func answerOf[T any](call Call, f func() (T, error)) func(give func(answer any, err error)) {
	return func(give func(any, error)) {
		var got T
		err := errGoexit
		defer func() { give(got, err) }()
		defer contained(call, &err)
		got, err = f()
	}
}

// errGoexit is the answer of a function that ended its goroutine.
var errGoexit = errors.New("the function ended its goroutine")

// start has a question answered on a new goroutine.
func (c *Calls) start(call Call, q *question, late func(), ask func(give func(answer any, err error))) {
	r := c.begin(call, true)
	go func() {
		defer c.ended(r)
		ask(func(answer any, err error) {
			c.end(r)
			if c.answered(call, q, answer, err) && late != nil {
				late()
			}
		})
	}()
}

// await waits for an answer.
func (c *Calls) await(ended <-chan struct{}, q *question, wait time.Duration) {
	var over <-chan time.Time
	if wait > 0 {
		timer := c.clock.NewTimer(wait)
		defer timer.Stop()
		over = timer.C()
	}
	select {
	case <-q.done:
	case <-over:
	case <-ended:
	}
}
