package foreign

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-logr/logr"
)

// LeaveLimit is how long the end of a run waits for functions that have been told to end.
const LeaveLimit = 5 * time.Second

// Leave waits until the functions that [Ask] and [Quick] have called have returned, for
// [LeaveLimit] at most; it logs and returns the calls that have not: their goroutines are lost. The
// caller must have made sure that no more are started and that their contexts have ended.
func (c *Calls) Leave(logger logr.Logger) []Call {
	lost := c.left()
	for _, call := range lost {
		logger.Error(ErrDeaf, "A call is left behind at the end, and its goroutine is lost", "call", call.Name, "object", call.Object, "pod", call.Pod, "uid", call.UID)
	}
	return lost
}

// left waits for what has not returned, and returns what does not.
func (c *Calls) left() []Call {
	timer := c.clock.NewTimer(LeaveLimit)
	defer timer.Stop()
	select {
	case <-c.allEnded():
	case <-timer.C():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var lost []Call
	for r := range c.own {
		lost = append(lost, r.Call)
	}
	slices.SortFunc(lost, func(a, b Call) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID), cmp.Compare(a.Object, b.Object))
	})
	return lost
}

// allEnded returns a channel that is closed once no goroutine of a function is left.
func (c *Calls) allEnded() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	idle := c.idle
	c.tellIdle()
	return idle
}

// ended records the end of a goroutine.
func (c *Calls) ended(r *running) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.own, r)
	c.tellIdle()
}

// tellIdle closes idle if there is nothing to wait for. The lock is held.
func (c *Calls) tellIdle() {
	if c.idle != nil && len(c.own) == 0 {
		close(c.idle)
		c.idle = nil
	}
}
