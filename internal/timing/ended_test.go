package timing_test

import (
	"testing"

	"github.com/podwright/podwright/internal/timing"
)

func TestEndedWaitsForNothing(t *testing.T) {
	done := make(chan struct{})
	if timing.Ended(done) || timing.Ended(nil) {
		t.Error("an open channel has ended")
	}
	if close(done); !timing.Ended(done) {
		t.Error("a closed channel has not ended")
	}
}
