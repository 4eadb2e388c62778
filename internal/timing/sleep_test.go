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
