package machine

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // exploring makes much garbage and keeps little
	goleak.VerifyTestMain(m)
}
