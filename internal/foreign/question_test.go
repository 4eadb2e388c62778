package foreign_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/problem"
)

// verdicts is a function that a test asks, which hangs for some subjects.
type verdicts struct {
	calls *foreign.Calls
	hung  chan struct{} // closed: they return
	bad   func(pod string) bool
	asked atomic.Int32 // about bad ones
	late  atomic.Int32
}

func newVerdicts(bad func(pod string) bool) *verdicts {
	return &verdicts{calls: foreign.New(clock.RealClock{}), hung: make(chan struct{}), bad: bad}
}

func (v *verdicts) ask(pod string) (string, error) { return v.about(pod, nil, pod+" may go") }

// about asks about a pod as it is now.
func (v *verdicts) about(pod string, manifest *v1.Pod, answer string) (string, error) {
	call := veto(pod)
	call.About = manifest
	return foreign.Quick(v.calls, call, func() { v.late.Add(1) }, func() (string, error) {
		if v.bad(pod) {
			v.asked.Add(1)
			<-v.hung
		}
		return answer, nil
	})
}

// askBounded asks as a caller that can wait a second.
func (v *verdicts) askBounded(pod string) (string, error) {
	return foreign.Ask(context.Background(), v.calls, veto(pod), foreign.Limits{Wait: time.Second, Bounded: true}, func(context.Context) (string, error) {
		if v.bad(pod) {
			v.asked.Add(1)
			<-v.hung
		}
		return pod + " may go", nil
	})
}

func only(bad string) func(string) bool { return func(pod string) bool { return pod == bad } }

// TestHungFunctionHoldsItsSubjectAlone: IN6. A function that does not return for one pod costs a
// caller with others to serve 10 ms, once; it is not called again for that pod, and others are
// answered at once. The late answer is given to the next caller that asks.
func TestHungFunctionHoldsItsSubjectAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVerdicts(only("hangs"))
		began := time.Now()
		var open *foreign.UnansweredError
		for range 3 {
			if got, err := v.ask("hangs"); got != "" || !errors.As(err, &open) || !open.Since.Equal(began) {
				t.Errorf("%q, %v", got, err)
			}
			if got, err := v.ask("other"); got != "other may go" || err != nil {
				t.Errorf("a good pod: %q, %v", got, err)
			}
		}
		if waited := time.Since(began); waited != 10*time.Millisecond || v.asked.Load() != 1 {
			t.Errorf("waited %v, asked %d times", waited, v.asked.Load())
		}
		close(v.hung)
		synctest.Wait()
		if got, err := v.ask("hangs"); got != "hangs may go" || err != nil || v.asked.Load() != 1 || v.late.Load() != 1 {
			t.Errorf("late: %q, %v, asked %d times, heard %d late answers", got, err, v.asked.Load(), v.late.Load())
		}
	})
}

// TestCrowdOfHungSubjectsCostsLittle: IN6, IN2. However many subjects a function hangs for, its
// callers wait 100 ms for it in 10 s.
func TestCrowdOfHungSubjectsCostsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVerdicts(func(string) bool { return true })
		defer close(v.hung)
		for _, crowd := range []int{100, 100, 1000, 1000} {
			began := time.Now()
			for i := range crowd {
				_, _ = v.ask(fmt.Sprint(began, i))
			}
			if waited := time.Since(began); waited > 100*time.Millisecond {
				t.Errorf("waited %v, called %d times", waited, v.asked.Load())
			}
			<-time.After(10 * time.Second)
		}
	})
}

// TestHungFunctionIsCalledOnlySoOften: IN6. A function that never returns costs 1,024 goroutines and, however many subjects come
// and go, then one in ten minutes; once it returns, all are asked again, each once.
func TestHungFunctionIsCalledOnlySoOften(t *testing.T) {
	for how, ask := range map[string]func(v *verdicts, pod string) (string, error){"Quick": (*verdicts).ask, "Ask": (*verdicts).askBounded} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := newVerdicts(func(string) bool { return true })
				const day = 24 * 60
				for i := range day {
					var open *foreign.UnansweredError
					_, err := ask(v, fmt.Sprint(i))
					if !errors.As(err, &open) || i < 1024 && open.NotCalled || strings.Contains(err.Error(), "is not called for this now") != open.NotCalled {
						t.Fatal(i, err)
					}
					<-time.After(time.Minute)
				}
				n := int(v.asked.Load())
				if most := 1024 + 10 + day/10; n > most || len(v.calls.Problems()) != n {
					t.Errorf("called %d times, %d problems", n, len(v.calls.Problems()))
				}
				other := foreign.Call{Kind: problem.Function, Name: "Critical", Object: "pod"}
				if got, err := foreign.Quick(v.calls, other, nil, func() (int, error) { return 1, nil }); got != 1 || err != nil {
					t.Errorf("another function: %d, %v", got, err)
				}
				close(v.hung)
				synctest.Wait()
				for i := range 1000 {
					pod := fmt.Sprint("again ", i)
					if got, err := ask(v, pod); got != pod+" may go" || err != nil {
						t.Errorf("%q, %v", got, err)
					}
				}
				if got := int(v.asked.Load()); got != n+1000 {
					t.Errorf("called %d times", got)
				}
			})
		})
	}
}

// TestGoneSubjectsDoNotStopAFunction: IN6, IN1. A function that hangs for a subject each minute, for a day, is still called for
// others: they wait a second for it when a call hangs, not until all those calls return.
func TestGoneSubjectsDoNotStopAFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVerdicts(func(pod string) bool { return strings.HasPrefix(pod, "bad") })
		defer close(v.hung)
		refused := 0
		for i := range 24 * 60 {
			_, _ = v.ask(fmt.Sprint("bad ", i))
			for j := range 60 {
				if got, err := v.ask(fmt.Sprint("good ", j)); err == nil && got != "" {
					continue
				}
				if refused++; j > 0 {
					t.Fatalf("minute %d, second %d: no answer", i, j)
				}
				<-time.After(time.Second)
			}
			<-time.After(59 * time.Second)
		}
		if v.asked.Load() != 24*60 || refused > 24*60 {
			t.Errorf("called %d times, %d waits", v.asked.Load(), refused)
		}
	})
}

// TestCostOfACallIsThatOfOne: a question costs the same however many are open.
func TestCostOfACallIsThatOfOne(t *testing.T) {
	cost := func(open int) time.Duration {
		v := newVerdicts(func(string) bool { return true })
		defer close(v.hung)
		subjects := make([]string, open)
		for i := range subjects {
			subjects[i] = fmt.Sprint(i)
			_, _ = v.ask(subjects[i])
		}
		least := time.Duration(math.MaxInt64) // of several: the machine may be busy
		for range 10 {
			began := time.Now()
			for range 4 {
				for _, s := range subjects[:100] {
					_, _ = v.ask(s)
				}
			}
			least = min(least, time.Since(began))
		}
		return least
	}
	if few, many := cost(100), cost(10_000); many > 10*few+time.Millisecond {
		t.Errorf("%v with 100 open questions, %v with 10,000", few, many)
	}
}

// TestLateAnswerIsAboutThePodAsItWas: IN6. An answer about a pod that has changed does not
// count: neither one that comes late, nor one that others wait for.
func TestLateAnswerIsAboutThePodAsItWas(t *testing.T) {
	old := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid", Annotations: map[string]string{"tier": "a"}}}
	for what, change := range map[string]func(*v1.Pod){
		"spec":       func(p *v1.Pod) { p.Spec.NodeName = "other" },
		"label":      func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} },
		"annotation": func(p *v1.Pod) { p.Annotations["tier"] = "b" },
		"status":     func(p *v1.Pod) { p.Status.Phase = v1.PodRunning },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, changed := newVerdicts(only("web")), old.DeepCopy()
				change(changed)
				want := "new"
				if what == "status" {
					want = "old" // the question is the same
				}
				_, _ = v.about("web", old, "old")
				close(v.hung)
				synctest.Wait()
				if got, err := v.about("web", changed, "new"); got != want || err != nil {
					t.Errorf("late: %q, %v, want %q", got, err, want)
				}
				join := func(pod *v1.Pod, answer string) (string, error) {
					call := veto("joined")
					call.About = pod
					return foreign.Ask(t.Context(), v.calls, call, foreign.Limits{Wait: time.Minute, Join: true}, func(context.Context) (string, error) {
						<-time.After(time.Second)
						return answer, nil
					})
				}
				var wg sync.WaitGroup
				wg.Go(func() { _, _ = join(old, "old") })
				synctest.Wait()
				if got, _ := join(changed, "new"); got == "old" != (want == "old") {
					t.Errorf("joined: %q, want %q", got, want)
				}
				wg.Wait()
			})
		})
	}
}

// TestAnswerThatNobodyWaitsForIsDropped: IN6, IN3. An answer that comes a day late counts if the
// question has been repeated until now, and not if it was about another life of the subject.
func TestAnswerThatNobodyWaitsForIsDropped(t *testing.T) {
	for _, again := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			v := newVerdicts(only("web"))
			_, _ = v.about("web", nil, "yesterday")
			for range 24 * 60 * 6 {
				<-time.After(10 * time.Second)
				if again {
					_, _ = v.about("web", nil, "never asked")
				}
			}
			close(v.hung)
			synctest.Wait()
			want := map[bool]string{true: "yesterday", false: "today"}[again]
			if got, err := v.about("web", nil, "today"); got != want || err != nil {
				t.Errorf("asked again %v: %q, %v", again, got, err)
			}
			// An answer that was kept is not kept forever.
			_, _ = v.about("other", nil, "")
			<-time.After(time.Minute)
			if got, err := v.about("web", nil, "now"); got != "now" || err != nil {
				t.Errorf("a minute later: %q, %v", got, err)
			}
		})
	}
}

// TestLatePanicIsTold: IN6. A function that panics after 10 ms has failed, like one that panics at once.
func TestLatePanicIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := foreign.New(clock.RealClock{})
		ask := func() error {
			_, err := foreign.Quick(calls, veto("web"), nil, func() (int, error) {
				<-time.After(time.Second)
				panic("no")
			})
			return err
		}
		_ = ask()
		<-time.After(2 * time.Second)
		var panicked *foreign.PanicError
		if err := ask(); !errors.As(err, &panicked) {
			t.Errorf("%v", err)
		}
	})
}

// TestOneCallerMayLeave: IN6. A caller that shares a call is not affected if the call was cut off
// for another caller: the function is called for it again.
func TestOneCallerMayLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := foreign.New(clock.RealClock{})
		var asked atomic.Int32
		ask := func(ctx context.Context) (int, error) {
			return foreign.Ask(ctx, calls, veto("web"), foreign.Limits{Join: true}, func(ctx context.Context) (int, error) {
				asked.Add(1)
				select {
				case <-time.After(time.Minute):
					return 7, nil
				case <-ctx.Done():
					<-time.After(time.Second)
					return 0, ctx.Err()
				}
			})
		}
		first, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := ask(first); !errors.Is(err, context.Canceled) {
				t.Errorf("the first: %v", err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if n, err := ask(t.Context()); n != 7 || err != nil || asked.Load() != 2 {
				t.Errorf("the second: %d, %v, asked %d times", n, err, asked.Load())
			}
		})
		synctest.Wait()
		cancel()
		wg.Wait()
	})
}

// TestLeaveWaitsForWhatReturns: IN6. The end of a run waits for functions that were told to end, for 5 s, and
// names those that do not.
func TestLeaveWaitsForWhatReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, hung := foreign.New(clock.RealClock{}), make(chan struct{})
		if lost := calls.Leave(logr.Discard()); lost != nil {
			t.Errorf("no call: %v", lost)
		}
		end := func(pod string, until <-chan time.Time) {
			_, _ = foreign.Quick(calls, veto(pod), nil, func() (int, error) {
				select {
				case <-until:
				case <-hung:
				}
				return 0, nil
			})
		}
		end("slow", time.After(2*time.Second))
		began := time.Now()
		if lost := calls.Leave(logr.Discard()); lost != nil || time.Since(began) > 2*time.Second {
			t.Errorf("%v after %v", lost, time.Since(began))
		}
		defer calls.Watch(veto("watched"))() // its caller waits for it
		end("hangs", nil)
		began = time.Now()
		if lost := calls.Leave(logr.Discard()); len(lost) != 1 || lost[0].Pod != "hangs" || time.Since(began) != 5*time.Second {
			t.Errorf("%v after %v", lost, time.Since(began))
		}
		close(hung)
	})
}

// TestQuickCallersShareAPromptAnswer: IN6. Callers that ask about the same at once are all answered.
func TestQuickCallersShareAPromptAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := foreign.New(clock.RealClock{})
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				n, err := foreign.Quick(calls, veto("default"), nil, func() (int, error) { <-time.After(5 * time.Millisecond); return 7, nil })
				if n != 7 || err != nil {
					t.Errorf("%d, %v", n, err)
				}
			})
		}
		wg.Wait()
	})
}
