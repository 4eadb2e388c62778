package wallclocktest

import (
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// Clock tells the time of the wall, without a monotonic reading. Its timers wait for as long as they are told, however it
// is set. The zero value is right; all methods may be called at once.
type Clock struct {
	clock.RealClock
	wrong atomic.Int64
}

// Set makes the clock wrong by this much.
func (c *Clock) Set(by time.Duration) { c.wrong.Store(int64(by)) }

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time { return time.Now().Round(0).Add(time.Duration(c.wrong.Load())) }

// Since returns the difference from the time that the clock shows.
func (c *Clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }
