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
	// maxQuick is how many goroutines such callers may leave behind for one function.
	maxQuick = 256
)

// function is what calls of the same function have in common.
type function struct {
	kind problem.Kind
	name string
}

func (k key) function() function { return function{k.kind, k.name} }

// askedLess records that a question of [Quick] was answered. The lock is held.
func (c *Calls) askedLess(f function) {
	if c.quick[f]--; c.quick[f] == 0 {
		delete(c.quick, f)
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
