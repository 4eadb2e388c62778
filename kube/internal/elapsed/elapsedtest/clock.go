package elapsedtest

import (
	"time"
	"unsafe"

	"k8s.io/utils/clock"
)

// Clock is a clock whose machine was suspended: its wall clock went on, its monotonic one did not.
type Clock struct {
	clock.RealClock
	Slept time.Duration
}

// Now returns a time with both clocks, as the real clock does. Package time cannot make one whose clocks
// differ, so the monotonic reading, the second word, is set back here.
func (c *Clock) Now() time.Time {
	now := c.RealClock.Now().Add(c.Slept)
	(*[2]int64)(unsafe.Pointer(&now))[1] -= int64(c.Slept)
	return now
}
