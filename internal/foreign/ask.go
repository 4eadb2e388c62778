package foreign

import (
	"context"
	"fmt"
	"time"
)

// promptly is how long a caller with others to serve waits for an answer.
const promptly = 10 * time.Millisecond

// lateAnswer is how long an answer that came late is good for.
const lateAnswer = 30 * time.Second

// UnansweredError says that a function has not returned yet. What depends on its answer is
// tried again.
type UnansweredError struct {
	// Name is the function's, Since when it was called, Waited how long ago that was.
	Name   string
	Since  time.Time
	Waited time.Duration
}

// Error says since when.
func (e *UnansweredError) Error() string {
	return fmt.Sprintf("%s, called at %s, has not returned", e.Name, e.Since.UTC().Format(time.RFC3339))
}

// question is a call of Ask that has not been answered, or whose answer was not heard.
type question struct {
	since    time.Time
	done     chan struct{} // closed after the answer
	answered time.Time     // zero: not yet
	left     bool          // the caller did not wait for it
	keep     bool          // an answer that comes late is given to the next who asks
	answer   any
	err      error
}

// Limits of a question.
type Limits struct {
	// Wait is how long the caller waits for the answer. 0 is for callers that have
	// others to serve: 10 ms, and not at all while the function lets others wait. Then
	// an answer that comes late is given to the next who asks, within 30 s.
	Wait time.Duration
	// Answered hears of an answer that came late, on the function's goroutine. Optional.
	Answered func()
}

// Ask calls f on a goroutine of its own and waits for its answer, until ctx ends or the wait
// is over; then the error is a [*UnansweredError], or ctx's. A panic is a [*PanicError].
//
// f gets a context that ends with ctx, and when the caller no longer waits unless it has
// others to serve. While f has not returned it is not called again for the same subject.
// The goroutine of a function that never returns is lost; nothing waits for it.
func Ask[T any](ctx context.Context, c *Calls, call Call, limits Limits, f func(ctx context.Context) (T, error)) (T, error) {
	q, begun, patient := c.question(call, limits.Wait == 0)
	wait := limits.Wait
	if wait == 0 {
		wait = promptly
	}
	if begun {
		own, cancel := context.WithCancel(ctx)
		if limits.Wait == 0 {
			own, cancel = context.WithCancel(context.WithoutCancel(ctx))
		} else {
			defer cancel()
		}
		r := c.begin(call)
		go func() {
			defer cancel()
			answer, err := answer(own, call, f)
			c.end(r)
			if c.answered(call, q, answer, err) && limits.Answered != nil {
				limits.Answered()
			}
		}()
	}
	if begun && (patient || limits.Wait > 0) {
		c.await(ctx, q, wait)
	}
	return heard[T](ctx, c, call, q)
}

// await waits for an answer.
func (c *Calls) await(ctx context.Context, q *question, wait time.Duration) {
	timer := c.clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-q.done:
	case <-timer.C():
	case <-ctx.Done():
	}
}

// answer calls f; a panic is an error.
func answer[T any](ctx context.Context, call Call, f func(ctx context.Context) (T, error)) (answer T, err error) {
	defer contained(call, &err)
	return f(ctx)
}

// question returns the question that is open for a subject, or whether it has to be asked
// now, and whether its answer is worth a short wait: not while the function lets others wait.
func (c *Calls) question(call Call, keep bool) (q *question, begun, patient bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	patient = true
	for k, other := range c.asked {
		switch {
		case other.answered.IsZero():
			patient = patient && (k.kind != call.Kind || k.name != call.Name || now.Sub(other.since) < promptly)
		case now.Sub(other.answered) >= lateAnswer:
			delete(c.asked, k)
		}
	}
	if q := c.asked[call.key()]; q != nil {
		return q, false, false
	}
	q = &question{since: now, keep: keep, done: make(chan struct{})}
	c.asked[call.key()] = q
	return q, true, patient
}

// answered notes an answer, and reports whether the caller has left. A late error is not
// kept, nor the late result of an action: the function is called again.
func (c *Calls) answered(call Call, q *question, answer any, err error) (left bool) {
	c.note(call, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	q.answer, q.err, q.answered = answer, err, c.clock.Now()
	close(q.done)
	if q.left && (err != nil || !q.keep) {
		delete(c.asked, call.key())
	}
	return q.left
}

// heard returns the answer, if there is one, and forgets it.
func heard[T any](ctx context.Context, c *Calls, call Call, q *question) (answer T, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q.answered.IsZero() {
		q.left = true
		if err := context.Cause(ctx); err != nil {
			return answer, fmt.Errorf("%s: %w", call.Name, err)
		}
		return answer, &UnansweredError{Name: call.Name, Since: q.since, Waited: c.clock.Since(q.since)}
	}
	if c.asked[call.key()] == q {
		delete(c.asked, call.key())
	}
	answer, _ = q.answer.(T)
	return answer, q.err
}
