package foreign

import (
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// lateAnswer is how long a late answer is valid, and how long a question may go unrepeated before
// its answer no longer counts: the pod it was about may be in its next life.
const lateAnswer = 30 * time.Second

// question is a call of [Ask] or [Quick] that has not been answered, or whose answer was
// not heard.
type question struct {
	key   key
	about *v1.Pod
	since time.Time
	asked time.Time     // the last time
	done  chan struct{} // closed after the answer
	keep  bool          // a late answer is given to the next caller that asks

	answered time.Time // zero: not yet
	left     bool      // some caller did not wait for the answer
	cut      bool      // the caller whose context the function uses has left
	answer   any
	err      error
}

// turn says what a caller has to do with a question.
type turn uint8

const (
	begins  turn = iota // the function must be called
	joins               // its answer is the caller's too
	goesOn              // it is about the subject as it was before
	crowded             // the function is not called: too many calls of it have not returned
)

// question returns the open question about a subject, or a new one.
func (c *Calls) question(call Call, keep, bounded bool) (*question, turn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	c.expire(now)
	if q := c.asked[call.key()]; q != nil {
		same := sameManifest(q.about, call.About)
		switch {
		case q.answered.IsZero() && !same:
			return q, goesOn
		case q.answered.IsZero(), q.keep && q.left && same:
			q.asked = now
			return q, joins
		}
		// The answer belongs to another caller, or is about the subject as it was before.
	}
	q := &question{key: call.key(), about: call.About, since: now, asked: now, keep: keep, done: make(chan struct{})}
	if bounded && c.crowds[q.key.function()].closed(now) {
		return q, crowded // not remembered: the caller asks again
	}
	c.asked[q.key] = q
	return q, begins
}

// sameManifest reports whether an answer about one pod also holds for the other.
func sameManifest(a, b *v1.Pod) bool {
	if a == b {
		return true
	}
	return a != nil && b != nil && apiequality.Semantic.DeepEqual(a.Spec, b.Spec) &&
		apiequality.Semantic.DeepEqual(a.Labels, b.Labels) && apiequality.Semantic.DeepEqual(a.Annotations, b.Annotations)
}

// answered records an answer, and reports whether a caller has left without it. The answer is kept
// for the next caller only if it answers a question: an action is started again.
func (c *Calls) answered(call Call, q *question, answer any, err error) (left bool) {
	c.note(call, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	q.answer, q.err, q.answered = answer, err, c.clock.Now()
	close(q.done)
	c.returned(q)
	switch {
	case !q.left:
	case q.keep && q.answered.Sub(q.asked) < lateAnswer:
		c.late = append(c.late, q)
	default:
		c.drop(q)
	}
	return q.left
}

// expire drops the late answers that no caller has collected in time. They are in order of arrival.
func (c *Calls) expire(now time.Time) {
	for len(c.late) > 0 && now.Sub(c.late[0].answered) >= lateAnswer {
		c.drop(c.late[0])
		c.late[0] = nil
		c.late = c.late[1:]
	}
}

// drop forgets a question.
func (c *Calls) drop(q *question) {
	if c.asked[q.key] == q {
		delete(c.asked, q.key)
	}
}

// wasCut reports whether the function was told to end before it answered.
func (c *Calls) wasCut(q *question) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return q.cut && q.err != nil
}

// heard returns the answer, if there is one, and forgets it.
func heard[T any](c *Calls, q *question, turn turn) (got T, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q.answered.IsZero() || turn == goesOn {
		if turn != crowded {
			c.lose(q)
		}
		q.cut = q.cut || turn == begins
		return got, &UnansweredError{Name: q.key.name, Since: q.since, Waited: c.clock.Since(q.since), NotCalled: turn == crowded}
	}
	c.drop(q)
	got, _ = q.answer.(T)
	return got, q.err
}
