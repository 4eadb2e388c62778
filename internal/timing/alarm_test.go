package timing_test

import (
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/internal/timing"
)

// hasty is a fake clock that is stepped while a timer is made.
type hasty struct {
	*clocktesting.FakeClock
	before, after time.Duration // the timer
	made          int
}

func (h *hasty) NewTimer(d time.Duration) clock.Timer {
	h.made++
	before, after := h.before, h.after
	h.before, h.after = 0, 0
	h.Step(before)
	timer := h.FakeClock.NewTimer(d)
	h.Step(after)
	return timer
}

// TestAlarmRingsAtItsMoment: the alarm rings once its moment has come, and not before, also if the clock is stepped while
// the timer is made.
func TestAlarmRingsAtItsMoment(t *testing.T) {
	began := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		in            time.Duration
		before, after time.Duration
		left, made    int // minutes until it rings, timers
	}{
		"in an hour":                          {in: time.Hour, left: 60, made: 1},
		"now":                                 {in: 0},
		"over":                                {in: -time.Hour},
		"stepped beyond it before the timer":  {in: time.Hour, before: 2 * time.Hour, made: 1},
		"stepped to it before the timer":      {in: time.Hour, before: time.Hour, made: 1},
		"stepped towards it before the timer": {in: time.Hour, before: 40 * time.Minute, left: 20, made: 2},
		"stepped beyond it after the timer":   {in: time.Hour, after: 2 * time.Hour, made: 1},
		"stepped towards it after the timer":  {in: time.Hour, after: 40 * time.Minute, left: 20, made: 2},
	} {
		t.Run(name, func(t *testing.T) {
			c := &hasty{FakeClock: clocktesting.NewFakeClock(began), before: tc.before, after: tc.after}
			due, stop := timing.Alarm(c, began.Add(tc.in))
			rings := func() bool {
				select {
				case <-due:
					return true
				default:
					return false
				}
			}
			if tc.left > 0 {
				c.Step(time.Duration(tc.left)*time.Minute - 1)
				if rings() {
					t.Error("it rings too early")
				}
				c.Step(1)
			}
			if !rings() {
				t.Error("it does not ring")
			}
			stop()
			if c.made != tc.made || c.HasWaiters() {
				t.Errorf("%d timers were made, and some are left: %t", c.made, c.HasWaiters())
			}
		})
	}
}

// TestAlarmWithoutMoment: it never rings.
func TestAlarmWithoutMoment(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Now())
	due, stop := timing.Alarm(c, time.Time{})
	defer stop()
	if due != nil || c.HasWaiters() {
		t.Error("it may ring")
	}
}

// TestStoppedAlarmLeavesNoTimer: nor does it ring.
func TestStoppedAlarmLeavesNoTimer(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Now())
	due, stop := timing.Alarm(c, c.Now().Add(time.Minute))
	stop()
	c.Step(time.Hour)
	select {
	case <-due:
		t.Error("it rings")
	default:
	}
}
