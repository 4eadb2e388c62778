package tokens

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/kube/offline"
)

// slow is what an API server answers after 2 s.
func slow(value int) question[int] {
	return question[int]{ask: func(ctx context.Context) (answer[int], error) {
		select {
		case <-ctx.Done():
			return answer[int]{}, ctx.Err()
		case <-time.After(2 * time.Second):
			return answer[int]{value: value, due: time.Now().Add(time.Hour)}, nil
		}
	}}
}

// KK3: a caller that gives up, as for a pod that was deleted, is no failure of the API server: it begins no pause,
// and its end is no other caller's reason.
func TestCallerThatGivesUpIsNoFailure(t *testing.T) {
	for name, has := range map[string]bool{"without an answer": false, "with one that is due": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cache, err := offline.Open(offline.Options{Dir: t.TempDir()})
				if err != nil {
					t.Fatal(err)
				}
				k := newKeeper(Options{Clock: clock.RealClock{}, Cache: cache}, shelf[string, int]{entry: func(name string) offline.Entry { return offline.Entry{Kind: offline.Token, Name: name} }})
				if has {
					if got, err := k.get(t.Context(), "shared", slow(1)); got != 1 || err != nil {
						t.Fatal(got, err)
					}
					<-time.After(2 * time.Hour)
				}
				for range 6 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					got, err := k.get(ctx, "shared", slow(2))
					cancel()
					if has && (got != 1 || err != nil) || !has && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("KK3: the caller that gave up has %d, err %v", got, err)
					}
				}
				began := time.Now()
				if got, err := k.get(t.Context(), "shared", slow(3)); got != 3 || err != nil || time.Since(began) != 2*time.Second {
					t.Errorf("KK3: the next caller has %d, err %v after %v", got, err, time.Since(began))
				}
			})
		})
	}
}

// KK3: a failure is logged when it is new, when it changes, and when there is no valid answer any more; not each time. It is
// forgotten with the first success, and with the pod.
func TestFailuresAreLoggedOnce(t *testing.T) {
	clk, lines := clocktesting.NewFakeClock(time.Unix(1e9, 0)), 0
	k := newKeeper(Options{Clock: clk, Logger: funcr.New(func(string, string) { lines++ }, funcr.Options{})}, shelf[string, int]{})
	var failure error
	q := question[int]{ask: func(context.Context) (answer[int], error) {
		return answer[int]{value: 1, due: clk.Now().Add(time.Minute), expires: clk.Now().Add(time.Hour)}, failure
	}}
	for _, step := range []struct {
		what    string
		failure error
		forget  bool
		lasts   time.Duration
		want    int
	}{
		{"a success", nil, false, 0, 0},
		{"a failure while the answer is valid, and after", errors.New("read tcp 10.0.0.1:40000: reset"), false, 10 * time.Hour, 2},
		{"the same from another port", errors.New("read tcp 10.0.0.1:40001: reset"), false, time.Hour, 0},
		{"another failure", errors.New("forbidden"), false, 10 * time.Hour, 1},
		{"a success", nil, false, 0, 0},
		{"the failure of before", errors.New("forbidden"), false, 30 * time.Minute, 1},
		{"the failure of a pod that is recreated", errors.New("forbidden"), true, time.Hour, 1},
	} {
		lines, failure = 0, step.failure
		if step.forget {
			k.drop(func(string) bool { return true })
		}
		for from := clk.Now(); clk.Since(from) <= step.lasts; {
			clk.Step(10 * time.Minute)
			_, _ = k.get(t.Context(), "k", q)
		}
		if lines != step.want {
			t.Errorf("KK3: %s: %d lines, want %d", step.what, lines, step.want)
		}
	}
}

// KK3: an API server that does not answer fails the request, not its caller: a pause begins, and the reason is told.
func TestServerThatHangsIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, asked, blocked := newKeeper(Options{Clock: clock.RealClock{}}, shelf[string, int]{}), 0, time.Duration(0)
		q := question[int]{ask: func(ctx context.Context) (answer[int], error) {
			asked++
			<-ctx.Done()
			return answer[int]{}, ctx.Err()
		}}
		for began := time.Now(); time.Since(began) < time.Hour; <-time.After(time.Second) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // as the engine
			from := time.Now()
			if _, err := k.get(ctx, "k", q); err == nil || ctx.Err() != nil {
				t.Errorf("err %v, the caller's %v", err, ctx.Err())
			}
			blocked += time.Since(from)
			cancel()
		}
		if asked < 80 || asked > 110 || blocked > 15*time.Minute {
			t.Errorf("%d requests in an hour, callers were blocked %v", asked, blocked)
		}
	})
}

// creeping is a clock that goes on by a second whenever it is read.
type creeping struct {
	clock.Clock
	reads time.Duration
}

func (c *creeping) Now() time.Time {
	c.reads += time.Second
	return c.Clock.Now().Add(c.reads)
}

// KK3: what expires as it comes is an error, not an empty answer.
func TestAnswerThatExpiresOnArrival(t *testing.T) {
	now := time.Now()
	k := newKeeper(Options{Clock: &creeping{Clock: clocktesting.NewFakeClock(now)}}, shelf[string, int]{})
	q := question[int]{ask: func(context.Context) (answer[int], error) {
		return answer[int]{value: 1, expires: k.clock.Now().Add(1500 * time.Millisecond)}, nil
	}}
	if got, err := k.get(t.Context(), "k", q); got != 0 || !errors.Is(err, errIssuedExpired) {
		t.Errorf("%d, err %v", got, err)
	}
}

// KK9: what is due when it comes, because the API server was slow, is not requested again with each use.
func TestSlowAnswerIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, asked := newKeeper(Options{Clock: clock.RealClock{}}, shelf[string, int]{}), 0
		q := question[int]{ask: func(context.Context) (answer[int], error) {
			asked++
			began := time.Now()
			<-time.After(4 * time.Second)
			return answer[int]{value: asked, due: began.Add(3 * time.Second), expires: began.Add(time.Hour)}, nil
		}}
		for began := time.Now(); time.Since(began) < time.Minute; {
			if _, err := k.get(t.Context(), "k", q); err != nil {
				t.Error(err)
			}
			<-time.After(100 * time.Millisecond)
		}
		if asked > 6 {
			t.Errorf("KK9: %d requests in a minute", asked)
		}
	})
}

// KK4, KK10: what comes after its pod is forgotten is kept neither in memory nor on disk.
func TestAnswerAfterForgetIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, err := offline.Open(offline.Options{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		k := newKeeper(Options{Clock: clock.RealClock{}, Cache: cache}, shelf[string, int]{entry: func(name string) offline.Entry { return offline.Entry{Kind: offline.Token, Name: name} }})
		done := make(chan error)
		go func() {
			_, err := k.get(t.Context(), "gone", slow(1))
			done <- err
		}()
		<-time.After(time.Second)
		k.drop(func(key string) bool { return key == "gone" })
		if err := <-done; err != nil {
			t.Error(err)
		}
		if kept := cache.Entries(offline.Token); len(kept) != 0 || len(k.entries) != 0 {
			t.Errorf("KK10: kept are %v, and %d in memory", kept, len(k.entries))
		}
	})
}

// KK4, KK10: what the API server says about a forgotten life leaves the next life's answer on the disk.
func TestForgottenLifeRemovesNoAnswerOfTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, err := offline.Open(offline.Options{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		k := newKeeper(Options{Clock: clock.RealClock{}, Cache: cache}, shelf[string, int]{entry: func(name string) offline.Entry { return offline.Entry{Kind: offline.Token, Name: name} }})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = k.get(t.Context(), "u", question[int]{void: gone, ask: func(context.Context) (answer[int], error) {
				<-time.After(5 * time.Second)
				return answer[int]{}, apierrors.NewNotFound(schema.GroupResource{}, "x")
			}})
		}()
		<-time.After(time.Second)
		k.drop(func(string) bool { return true })
		if got, err := k.get(t.Context(), "u", slow(1)); got != 1 || err != nil {
			t.Fatal(got, err)
		}
		<-ended
		if kept := cache.Entries(offline.Token); len(kept) != 1 {
			t.Errorf("on disk: %v", kept)
		}
	})
}
