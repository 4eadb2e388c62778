package tokens

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/podwright/podwright/kube/internal/elapsed/elapsedtest"
)

// KK2: a machine that wakes up replaces what became due while it slept.
func TestDueWhileSuspended(t *testing.T) {
	c := &elapsedtest.Clock{}
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
	c.Slept = 47 * time.Minute
	if got := get(); got != 1 {
		t.Errorf("KK2: replaced early, %d", got)
	}
	c.Slept = 49 * time.Minute
	if got := get(); got != 2 {
		t.Errorf("KK2: not replaced after 49 min, most of them asleep")
	}
	if got := get(); got != 2 {
		t.Errorf("KK2: replaced again at once, %d", got)
	}
}

// KK2: what expired while the machine was suspended is no answer, although its monotonic clock says that it is valid.
func TestExpiredWhileSuspended(t *testing.T) {
	c := &elapsedtest.Clock{}
	k, away := newKeeper(Options{Clock: c}, shelf[string, int]{}), false
	get := func() (int, error) {
		return k.get(t.Context(), "k", question[int]{ask: func(context.Context) (answer[int], error) {
			if away {
				return answer[int]{}, errors.New("connection refused")
			}
			now := c.Now()
			return answer[int]{value: 1, due: now.Add(48 * time.Minute), expires: now.Add(time.Hour)}, nil
		}})
	}
	if got, err := get(); got != 1 || err != nil {
		t.Fatal(got, err)
	}
	c.Slept, away = 50*time.Minute, true
	if got, err := get(); got != 1 || err != nil {
		t.Errorf("KK2: %d, err %v after 50 min of an hour", got, err)
	}
	c.Slept = 10 * time.Hour
	if got, err := get(); err == nil {
		t.Errorf("KK2: %d, which expired 9 h ago", got)
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
