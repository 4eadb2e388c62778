package timing

import (
	"time"

	"k8s.io/utils/clock"
)

// stepped is how far a clock that moves while a timer is made was stepped: one that runs by itself moves less.
const stepped = time.Millisecond

// Alarm returns a channel that can be received from once the moment has come on the clock. A zero moment never comes. The
// caller calls stop when it no longer waits.
//
// Clocks take durations: if a fake clock is stepped between reading it and making the timer, the timer is late by the
// step, and one of 0 or less does not fire before the next step. So the timer is made again after a step.
func Alarm(c clock.Clock, moment time.Time) (due <-chan time.Time, stop func()) {
	if moment.IsZero() {
		return nil, func() {}
	}
	for left := moment.Sub(c.Now()); left > 0; {
		timer := c.NewTimer(left)
		now := moment.Sub(c.Now())
		if now > 0 && left-now < stepped {
			return timer.C(), func() { timer.Stop() }
		}
		timer.Stop()
		left = now
	}
	rung := make(chan time.Time)
	close(rung)
	return rung, func() {}
}
