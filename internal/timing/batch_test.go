package timing_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/timing"
)

// IN1: calls that return soon begin one after the other; many hanging calls delay the next one only
// briefly, and if the context has ended they do not delay it at all.
func TestCrowdOfHangingCallsDelaysByMoments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		b := timing.Batch{Clock: clock.RealClock{}}
		begin, quick := time.Now(), 10
		for range quick {
			done := make(chan struct{})
			time.AfterFunc(timing.Patience/5, func() { close(done) })
			if !b.Add(t.Context(), done) {
				t.Fatal("a call begins before the one before it has returned")
			}
		}
		if took := time.Since(begin); took != time.Duration(quick)*timing.Patience/5 {
			t.Errorf("%d calls that return took %v", quick, took)
		}
		begin = time.Now()
		for range 1000 {
			b.Add(t.Context(), never)
		}
		b.Wait(t.Context())
		if took := time.Since(begin); took != 6*timing.Patience { // 1, 4, 16, 64, 256, the rest
			t.Errorf("1000 calls that hang take %v", took)
		}
		begin = time.Now()
		hurried := timing.Batch{Clock: clock.RealClock{}, Patience: time.Millisecond}
		hurried.Add(t.Context(), never)
		if took := time.Since(begin); took != time.Millisecond {
			t.Errorf("a batch with a patience of 1 ms waited %v", took)
		}
		begin = time.Now()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		b.Add(ended, never)
		b.Wait(ended)
		b.Wait(t.Context()) // nothing has begun since
		if took := time.Since(begin); took != 0 {
			t.Errorf("waited %v after the end of the context", took)
		}
	})
}
