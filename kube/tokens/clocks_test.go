package tokens

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"k8s.io/utils/clock"
)

// suspended is a clock whose machine was suspended: its wall clock went on, its monotonic one did not.
type suspended struct {
	clock.RealClock
	slept time.Duration
}

// Now returns a time with both clocks, as time.Now does. Package time cannot make one whose clocks
// differ, so the monotonic reading, the second word, is set back here.
func (s *suspended) Now() time.Time {
	now := time.Now().Add(s.slept)
	words := (*[2]int64)(unsafe.Pointer(&now))
	words[1] -= int64(s.slept)
	return now
}

// KK2: a machine that wakes up replaces what became due while it slept.
func TestDueWhileSuspended(t *testing.T) {
	c := &suspended{}
	k := newKeeper(Options{Clock: c}, shelf[string, int]{})
	asked := 0
	get := func() int {
		got, err := k.get(t.Context(), "k", question[int]{ask: func(context.Context) (answer[int], error) {
			asked++
			now := c.Now()
			return answer[int]{value: asked, due: now.Add(48 * time.Minute), expires: now.Add(time.Hour)}, nil
		}})
		if err != nil {
			t.Error(err)
		}
		return got
	}
	get()
	before := c.Now()
	c.slept = 47 * time.Minute
	if c.Now().Sub(before) > time.Minute || c.Now().Round(0).Sub(before.Round(0)) < 47*time.Minute {
		t.Fatal("the test's clock does not do what it should")
	}
	if got := get(); got != 1 {
		t.Errorf("KK2: replaced early, %d", got)
	}
	c.slept = 49 * time.Minute
	if got := get(); got != 2 {
		t.Errorf("KK2: not replaced after 49 min, most of them asleep")
	}
	if got := get(); got != 2 {
		t.Errorf("KK2: replaced again at once, %d", got)
	}
}

// KK3, KK8: what was over when it came counts as a failure, with the pauses of a refusal: it is neither
// an answer nor nothing without a reason. An older one that is valid stays.
func TestIssuedAlreadyExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(Options{Clock: clock.RealClock{}}, shelf[string, int]{})
		asked, late := 0, 2*time.Hour
		q := question[int]{ask: func(context.Context) (answer[int], error) {
			asked++
			over := time.Now().Add(time.Hour - late)
			return answer[int]{value: asked, due: over, expires: over}, nil
		}}
		for range 3600 {
			if got, err := k.get(t.Context(), "k", q); got != 0 || !errors.Is(err, errIssuedExpired) {
				t.Fatalf("KK8: %d, err %v", got, err)
			}
			<-time.After(time.Second)
		}
		if asked < 10 || asked > 22 {
			t.Errorf("KK8: %d requests in an hour", asked)
		}
		<-time.After(6 * time.Minute)
		late, asked = 0, 100
		for _, minute := range []int{0, 30, 59} {
			if got, err := k.get(t.Context(), "k", q); got != 101 || err != nil {
				t.Errorf("KK8: after %d min %d, err %v", minute, got, err)
			}
			if late = 2 * time.Hour; minute < 59 {
				<-time.After(29 * time.Minute)
			}
		}
	})
}
