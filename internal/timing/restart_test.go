package timing_test

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/internal/timing"
)

// TestRestartForgetsAnEarlierEnd: a timer that has fired, and was not read, fires only once more, and a fake clock
// does not wait for its reader.
func TestRestartForgetsAnEarlierEnd(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	timer := c.NewTimer(time.Second)
	c.Step(time.Second)
	timing.Restart(timer, time.Minute)
	select {
	case at := <-timer.C():
		t.Fatalf("it fired for %v, which is over", at)
	default:
	}
	stepped := make(chan struct{})
	go func() { c.Step(time.Minute); close(stepped) }()
	<-stepped
	select {
	case <-timer.C():
	default:
		t.Fatal("it did not fire after the restart")
	}
}
