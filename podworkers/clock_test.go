package podworkers_test

import (
	"slices"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// steppedClock is a fake clock that reports which timers are set, so that a test outside a bubble
// can wait for them.
type steppedClock struct {
	*clocktesting.FakeClock
	resets chan time.Duration
}

func newSteppedClock() *steppedClock {
	return &steppedClock{clocktesting.NewFakeClock(time.Unix(1_000_000, 0)), make(chan time.Duration, 1000)}
}

func (c *steppedClock) NewTimer(d time.Duration) clock.Timer {
	return &steppedTimer{c.FakeClock.NewTimer(d), c}
}

type steppedTimer struct {
	clock.Timer
	clock *steppedClock
}

func (t *steppedTimer) Reset(d time.Duration) bool {
	defer func() { t.clock.resets <- d }()
	return t.Timer.Reset(d)
}

// awaitTimer waits until a timer is set to d or less.
func (c *steppedClock) awaitTimer(d time.Duration) {
	for <-c.resets > d { //nolint:revive // the loop only waits
	}
}

// waitFor waits until the log contains the line.
func (l *log) waitFor(t *testing.T, line string) {
	t.Helper()
	deadline, _ := t.Deadline()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		l.mu.Lock()
		found := slices.Contains(l.lines, line)
		l.mu.Unlock()
		if found {
			return
		}
		if !deadline.IsZero() && time.Until(deadline) < time.Second {
			t.Fatalf("%q never came: %v", line, l.take())
		}
	}
}
