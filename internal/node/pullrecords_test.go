package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestPullRecordsArePrunedOnceAMinute at most.
func TestPullRecordsArePrunedOnceAMinute(t *testing.T) {
	n, c := 0, clocktesting.NewFakePassiveClock(time.Now())
	r := NewPullRecords(func(context.Context) error { n++; return errors.New("busy") }, c)
	left := r.ImagesLeft(logr.Discard())
	for i, want := range []int{1, 1, 2, 2} {
		left(t.Context(), nil)
		if n != want {
			t.Errorf("step %d: pruned %d times, want %d", i, n, want)
		}
		c.SetTime(c.Now().Add(30*time.Second + time.Nanosecond))
	}
	c.SetTime(c.Now().Add(time.Hour))
	if err := r.Prune(t.Context()); err == nil {
		t.Error("trouble is not told")
	}
}
