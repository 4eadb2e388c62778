package foreign_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/problem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func veto(pod string) foreign.Call {
	return foreign.Call{Kind: problem.Function, Name: "Veto", Pod: pod, Object: pod, Patience: 10 * time.Second}
}

// TestHungCallIsListed: IN6. A call is listed once it takes too long, and no longer than it
// goes on.
func TestHungCallIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, began := foreign.New(clock.RealClock{}), time.Now()
		done := calls.Watch(veto("web"))
		<-time.After(9 * time.Second)
		if got := calls.Problems(); got != nil {
			t.Errorf("after 9 s: %v", got)
		}
		<-time.After(time.Second)
		got := calls.Problems()
		if len(got) != 1 || got[0].Name != "web" || !got[0].Since.Equal(began) || got[0].Waits != "Veto to return" {
			t.Errorf("after 10 s: %v", got)
		}
		done()
		if got := calls.Problems(); got != nil {
			t.Errorf("after the call: %v", got)
		}
	})
}

// TestPanicIsListedUntilItWorks: IN6. A panic is an error, listed with the time of the first one
// until the function works again or was not called for ten minutes.
func TestPanicIsListedUntilItWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, began := foreign.New(clock.RealClock{}), time.Now()
		call := func(f func() error) error {
			<-time.After(time.Minute)
			return calls.Contain(veto("web"), f)
		}
		bad := func() error { panic("no") }
		var panicked *foreign.PanicError
		if err := call(bad); !errors.As(err, &panicked) || panicked.Error() != "Veto panicked: no" || panicked.Trace() == "" {
			t.Errorf("%v", err)
		}
		_ = call(bad)
		if got := calls.Problems(); len(got) != 1 || !got[0].Since.Equal(began.Add(time.Minute)) || got[0].Cause != "Veto panicked: no" {
			t.Errorf("%v", got)
		}
		if err := call(func() error { return nil }); err != nil || calls.Problems() != nil {
			t.Errorf("%v, %v", err, calls.Problems())
		}
		_ = call(bad)
		<-time.After(10 * time.Minute)
		if got := calls.Problems(); got != nil {
			t.Errorf("after ten minutes: %v", got)
		}
	})
}

// TestPatientCallerWaits: IN6. A caller with nothing else to do waits as long as it says, and
// less if its context ends. The function's context ends with the wait.
func TestPatientCallerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := foreign.New(clock.RealClock{})
		var ended atomic.Int32
		ask := func(ctx context.Context, pod string) error {
			_, err := foreign.Ask(ctx, calls, veto(pod), foreign.Limits{Wait: 5 * time.Second}, func(ctx context.Context) (int, error) {
				<-ctx.Done()
				ended.Add(1)
				return 0, ctx.Err()
			})
			return err
		}
		began := time.Now()
		var open *foreign.UnansweredError
		if err := ask(t.Context(), "a"); !errors.As(err, &open) || time.Since(began) != 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if err := ask(ctx, "b"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		synctest.Wait()
		if ended.Load() != 2 {
			t.Errorf("%d contexts ended", ended.Load())
		}
		_, err := foreign.Ask(t.Context(), calls, veto("c"), foreign.Limits{Wait: time.Second}, func(context.Context) (int, error) { panic("no") })
		var panicked *foreign.PanicError
		if !errors.As(err, &panicked) {
			t.Errorf("a panic: %v", err)
		}
	})
}

// TestCallersJoin: IN6. Callers that come while the function is being called for the same subject
// share its answer. A function that ends its goroutine has failed.
func TestCallersJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := foreign.New(clock.RealClock{})
		var asked atomic.Int32
		ask := func() (int, error) {
			return foreign.Ask(t.Context(), calls, veto("web"), foreign.Limits{Wait: 5 * time.Second, Join: true}, func(context.Context) (int, error) {
				asked.Add(1)
				<-time.After(time.Second)
				return 7, nil
			})
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if n, err := ask(); n != 7 || err != nil {
					t.Errorf("%d, %v", n, err)
				}
			})
		}
		wg.Wait()
		if asked.Load() != 1 {
			t.Errorf("asked %d times", asked.Load())
		}
		if _, err := foreign.Quick(calls, veto("web"), nil, func() (int, error) { runtime.Goexit(); return 0, nil }); err == nil {
			t.Error("an answer of a goroutine that has ended")
		}
	})
}

// TestLateAnswerOfOneThatHears: IN6. A function may say what it has found until a moment after its context has ended; one that
// says nothing then is deaf.
func TestLateAnswerOfOneThatHears(t *testing.T) {
	const late = 100 * time.Millisecond
	for name, test := range map[string]struct {
		ends  time.Duration // of the caller's context
		takes time.Duration // after the end of the function's
		want  string
	}{
		"the wait ends, it hears":    {time.Hour, late / 2, "part, and context canceled"},
		"the context ends, it hears": {time.Second, late / 2, "part, and context deadline exceeded"},
		"the wait ends, deaf":        {time.Hour, time.Hour, ", and Veto, called at "},
		"the context ends, deaf":     {time.Second, time.Hour, ", and Veto: a function has not returned although its context has ended: context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls, began := foreign.New(clock.RealClock{}), time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), test.ends)
				defer cancel()
				limits := foreign.Limits{Wait: time.Minute, Late: late}
				got, err := foreign.Ask(ctx, calls, veto("web"), limits, func(ctx context.Context) (string, error) {
					<-ctx.Done()
					<-time.After(test.takes)
					return "part", ctx.Err()
				})
				text, want := fmt.Sprintf("%s, and %v", got, err), min(test.ends, time.Minute)+min(late, test.takes)
				if !strings.HasPrefix(text, test.want) || time.Since(began) != want {
					t.Errorf("%s after %v, want %s after %v", text, time.Since(began), test.want, want)
				}
				<-time.After(time.Hour)
			})
		})
	}
}
