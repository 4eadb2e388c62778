package timing_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/internal/timing"
)

// TestAnAnswerRenewsTheLimit of a chain of calls, also if it is told with a context derived from it.
func TestAnAnswerRenewsTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := timing.WithCallTimeout(t.Context(), clock.RealClock{}, time.Minute)
		defer cancel()
		inner, answers := timing.Answers(context.WithValue(ctx, key{}, "value"))
		for range 3 {
			<-time.After(50 * time.Second)
			timing.Answered(inner)
		}
		if len(answers) != 1 {
			t.Errorf("%d answers wait, want one for all", len(answers))
		}
		<-inner.Done()
		if after := time.Since(began); after != 210*time.Second || !errors.Is(inner.Err(), context.DeadlineExceeded) {
			t.Errorf("ended after %v with %v", after, inner.Err())
		}
	})
}

// TestAnAnswerInTimeCounts although the limit has passed before it was seen, as when a fake clock is stepped.
func TestAnAnswerInTimeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clocktesting.NewFakeClock(time.Now())
		ctx, cancel := timing.WithCallTimeout(t.Context(), c, time.Minute)
		defer cancel()
		timing.Answered(ctx)
		c.Step(time.Minute)
		synctest.Wait()
		if ctx.Err() != nil {
			t.Errorf("ended: %v", ctx.Err())
		}
		c.Step(time.Minute)
		<-ctx.Done()
	})
}

// TestAnsweredWithoutLimit does nothing.
func TestAnsweredWithoutLimit(t *testing.T) { timing.Answered(t.Context()) }
