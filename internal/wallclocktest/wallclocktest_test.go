package wallclocktest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/podwright/podwright/internal/wallclocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSettingMovesTheTimeAndNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c wallclocktest.Clock
		began := c.Now()
		timer := c.NewTimer(time.Minute)
		c.Set(-time.Hour)
		<-timer.C()
		if passed := c.Since(began); passed != time.Minute-time.Hour {
			t.Errorf("%v have passed on the clock", passed)
		}
	})
}
