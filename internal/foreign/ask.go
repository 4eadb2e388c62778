package foreign

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// promptly is how long a caller with others to serve waits for an answer.
const promptly = 10 * time.Millisecond

// lateAnswer is how long an answer that came late is valid.
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
	// Wait is how long the caller waits for the answer.
	Wait time.Duration
	// Join: a caller that comes while the function is called for the same subject waits
	// for that answer. Otherwise it goes on without one.
	Join bool
}

// Ask calls f on a goroutine of its own and waits for its answer, until ctx ends or the wait
// is over; then the error is a [*UnansweredError], or ctx's. A panic is a [*PanicError].
//
// f gets a context that ends with ctx, and when the caller no longer waits. While f has not
// returned it is not called again for the same subject. The goroutine of a function that
// never returns is lost; nothing waits for it.
func Ask[T any](ctx context.Context, c *Calls, call Call, limits Limits, f func(ctx context.Context) (T, error)) (T, error) {
	q, begun, _ := c.question(call, false)
	if begun {
		own, cancel := context.WithCancel(ctx)
		defer cancel()
		go answer(c, call, q, nil, func() (T, error) { return f(own) })
	}
	if begun || limits.Join {
		c.await(ctx.Done(), q, limits.Wait)
	}
	got, err := heard[T](c, call, q)
	if cause := context.Cause(ctx); cause != nil && errors.As(err, new(*UnansweredError)) {
		err = fmt.Errorf("%s: %w", call.Name, cause)
	}
	return got, err
}

// Quick is Ask for a caller with others to serve: it waits for 10 ms, and not at all while the
// function lets others wait. An answer that comes late is given to the next caller that
// asks, within 30 s; late, which may be nil, is then called on the function's goroutine.
func Quick[T any](c *Calls, call Call, late func(), f func() (T, error)) (T, error) {
	q, begun, patient := c.question(call, true)
	if begun {
		go answer(c, call, q, late, f)
		if patient {
			c.await(nil, q, promptly)
		}
	}
	return heard[T](c, call, q)
}

// answer calls f and notes its answer. A panic is an error, and so is the end of the
// goroutine.
func answer[T any](c *Calls, call Call, q *question, late func(), f func() (T, error)) {
	var got T
	err := errGoexit
	r := c.begin(call)
	defer func() {
		c.end(r)
		if c.answered(call, q, got, err) && late != nil {
			late()
		}
	}()
	defer contained(call, &err)
	got, err = f()
}

// errGoexit is what a function has answered that ended its goroutine.
var errGoexit = errors.New("the function ended its goroutine")

// await waits for an answer.
func (c *Calls) await(ended <-chan struct{}, q *question, wait time.Duration) {
	timer := c.clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-q.done:
	case <-timer.C():
	case <-ended:
	}
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
func heard[T any](c *Calls, call Call, q *question) (got T, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q.answered.IsZero() {
		q.left = true
		return got, &UnansweredError{Name: call.Name, Since: q.since, Waited: c.clock.Since(q.since)}
	}
	if c.asked[call.key()] == q {
		delete(c.asked, call.key())
	}
	got, _ = q.answer.(T)
	return got, q.err
}
