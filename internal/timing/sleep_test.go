package timing_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/timing"
)

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if err := timing.Sleep(t.Context(), clock.RealClock{}, time.Minute); err != nil || time.Since(begin) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		begin = time.Now()
		if err := timing.Sleep(ctx, clock.RealClock{}, time.Minute); !errors.Is(err, context.Canceled) || time.Since(begin) != time.Second {
			t.Errorf("cut off: %v after %v", err, time.Since(begin))
		}
	})
}

// armed is a clock that fails the test when somebody makes a timer.
type armed struct {
	clock.RealClock
	t *testing.T
}

func (a armed) NewTimer(d time.Duration) clock.Timer {
	a.t.Errorf("a timer of %v", d)
	return a.RealClock.NewTimer(d)
}

// Timers that are due at once crash Go 1.26's race detector when several goroutines have one.
func TestSleepOfNothingNeedsNoTimer(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, d := range []time.Duration{0, -time.Second} {
		if err := timing.Sleep(t.Context(), armed{t: t}, d); err != nil {
			t.Error(err)
		}
		if err := timing.Sleep(ended, armed{t: t}, d); !errors.Is(err, context.Canceled) {
			t.Errorf("ended: %v", err)
		}
	}
}
