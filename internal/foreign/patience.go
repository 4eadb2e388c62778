package foreign

import (
	"time"

	"github.com/podwright/podwright/internal/problem"
)

// What a hanging function may cost callers that have others to serve: 100 ms in 10 s, whatever the
// function hangs on.
const (
	// promptly is how long such a caller waits for an answer.
	promptly = 10 * time.Millisecond
	// vainWaits is how many waits in vainPeriod may be in vain.
	vainWaits  = 10
	vainPeriod = 10 * time.Second
	// maxLost is how many calls of one function may be without an answer before they bound its calls:
	// the function may hang for all subjects. A pod that is gone leaves its call behind, so this must
	// not end the function's use for others: it is tried again after a pause. A node has fewer pods, so those for which it hangs
	// keep no other from its answer.
	maxLost    = 1024
	firstPause = time.Second
	lastPause  = 10 * time.Minute
)

// function is what calls of the same function have in common.
type function struct {
	kind problem.Kind
	name string
}

func (k key) function() function { return function{k.kind, k.name} }

// crowd are the calls of a function whose callers have left without an answer.
type crowd struct {
	n int
	// until is when the function is called for another subject although there are too many, zero if it
	// has answered since the last of them. pause is the time from that call to the next one.
	until time.Time
	pause time.Duration
}

// closed reports whether the function is not called for another subject now.
func (w *crowd) closed(now time.Time) bool {
	if w == nil || w.n < maxLost || w.until.IsZero() {
		return false
	}
	if now.Before(w.until) {
		return true
	}
	w.close(now)
	return false
}

// close closes the function to other subjects for a while.
func (w *crowd) close(now time.Time) {
	w.pause = min(max(2*w.pause, firstPause), lastPause)
	w.until = now.Add(w.pause)
}

// lose records that a caller leaves without an answer. The lock is held.
func (c *Calls) lose(q *question) {
	if q.left || !q.answered.IsZero() { // or it has just returned
		return
	}
	q.left = true
	w := c.crowds[q.key.function()]
	if w == nil {
		w = &crowd{}
		c.crowds[q.key.function()] = w
	}
	if w.n++; w.n >= maxLost && w.until.IsZero() {
		w.close(c.clock.Now())
	}
}

// returned records that a call has returned. The lock is held.
func (c *Calls) returned(q *question) {
	w := c.crowds[q.key.function()]
	if w == nil {
		return
	}
	w.until, w.pause = time.Time{}, 0
	if q.left {
		w.n--
	}
	if w.n == 0 {
		delete(c.crowds, q.key.function())
	}
}

// vain counts the waits for a function that got no answer, and when the first of them was.
type vain struct {
	n     int
	since time.Time
}

// patient reports whether an answer of the function is worth a short wait.
func (c *Calls) patient(call Call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.vain[function{call.Kind, call.Name}]
	return v.n < vainWaits || c.clock.Since(v.since) >= vainPeriod
}

// waited records a wait, which was in vain if there is no answer.
func (c *Calls) waited(call Call, q *question) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !q.answered.IsZero() {
		return
	}
	f := function{call.Kind, call.Name}
	v := c.vain[f]
	if now := c.clock.Now(); v.n == 0 || now.Sub(v.since) >= vainPeriod {
		v = vain{since: now}
	}
	v.n++
	c.vain[f] = v
}
