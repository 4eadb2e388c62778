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

type key struct{}

// TestTheClockEndsTheContext: the error is that of a deadline, also in contexts
// derived from it.
func TestTheClockEndsTheContext(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Now())
	parent := context.WithValue(t.Context(), key{}, "value")
	ctx, cancel := timing.WithTimeout(parent, c, time.Minute)
	defer cancel()
	child, cancelChild := context.WithCancel(ctx)
	defer cancelChild()

	c.Step(time.Minute - 1)
	if ctx.Err() != nil {
		t.Fatalf("ended early: %v", ctx.Err())
	}
	c.Step(1)
	<-child.Done()
	for name, err := range map[string]error{
		"Err": ctx.Err(), "Cause": context.Cause(ctx), "Err of a child": child.Err(), "Cause of a child": context.Cause(child),
	} {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s is %v, want DeadlineExceeded", name, err)
		}
	}
	if ctx.Value(key{}) != "value" {
		t.Error("the values of the parent are lost")
	}
	if _, has := ctx.Deadline(); has {
		t.Error("a virtual deadline is told as a real one")
	}
}

// TestRealClockIsTheContextPackage: its deadline reaches the network.
func TestRealClockIsTheContextPackage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := timing.WithTimeout(t.Context(), clock.RealClock{}, time.Minute)
		defer cancel()
		if at, has := ctx.Deadline(); !has || at.Sub(began) != time.Minute {
			t.Errorf("deadline %v, %v", at, has)
		}
		<-ctx.Done()
		if after := time.Since(began); after != time.Minute || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("ended after %v with %v", after, ctx.Err())
		}
	})
}

// TestRealTimeDoesNotCount: with a virtual clock only that clock counts.
func TestRealTimeDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := timing.WithTimeout(t.Context(), clocktesting.NewFakeClock(time.Now()), time.Second)
		defer cancel()
		<-time.After(time.Hour)
		if ctx.Err() != nil {
			t.Errorf("ended: %v", ctx.Err())
		}
	})
}

// TestParentEndsTheContext with its own error and cause.
func TestParentEndsTheContext(t *testing.T) {
	why := errors.New("why")
	c := clocktesting.NewFakeClock(time.Now())
	parent, end := context.WithCancelCause(t.Context())
	ctx, cancel := timing.WithTimeout(parent, c, time.Minute)
	defer cancel()
	end(why)
	<-ctx.Done()
	if !errors.Is(ctx.Err(), context.Canceled) || !errors.Is(context.Cause(ctx), why) {
		t.Errorf("error %v, cause %v", ctx.Err(), context.Cause(ctx))
	}

	late, cancelLate := timing.WithTimeout(parent, c, time.Minute)
	defer cancelLate()
	if !errors.Is(late.Err(), context.Canceled) || !errors.Is(context.Cause(late), why) {
		t.Errorf("of an ended parent: error %v, cause %v", late.Err(), context.Cause(late))
	}
}

// TestCancelLeavesNothing: no timer, and the first end counts.
func TestCancelLeavesNothing(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Now())
	ctx, cancel := timing.WithTimeout(t.Context(), c, time.Minute)
	cancel()
	cancel()
	if c.HasWaiters() {
		t.Error("a timer is left")
	}
	c.Step(time.Hour)
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("error %v, want Canceled", ctx.Err())
	}
}

// TestNoTimeIsOverAtOnce, as in the context package.
func TestNoTimeIsOverAtOnce(t *testing.T) {
	for _, d := range []time.Duration{0, -time.Second} {
		ctx, cancel := timing.WithTimeout(t.Context(), clocktesting.NewFakeClock(time.Now()), d)
		cancel()
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("%v: error %v", d, ctx.Err())
		}
	}
}
