package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/rule"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/syncloop/shutdown"
)

// TestDeafListHoldsNoShutdown: a runtime whose list ignores the end of its context keeps no pod from
// being told to stop, and the shutdown ends with its plan or its context (section 16).
func TestDeafListHoldsNoShutdown(t *testing.T) {
	for name, test := range map[string]struct {
		limit, took time.Duration
		want        error
	}{
		"the plan ends":    {time.Hour, shutdown.DefaultTime + deafAfter, errRunningUnknown},
		"the context ends": {10 * time.Second, 10*time.Second + deafAfter, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, workers := newShutdown(t, newPod("a"), newPod("b"))
				answer := make(chan struct{})
				s.Runtime = &runtimeList{pods: []*runtime.Pod{listed("leftover")}, asked: func() { <-answer }}
				ctx, cancel := context.WithTimeout(t.Context(), test.limit)
				defer cancel()
				began := time.Now()
				report, err := s.Run(ctx, shutdown.Plan{})
				if took := time.Since(began); !errors.Is(err, test.want) || took != test.took || !report.Ended.IsZero() {
					t.Errorf("%+v, %v after %v", report, err, took)
				}
				if test.want == errRunningUnknown && !errors.Is(err, foreign.ErrDeaf) {
					t.Errorf("%v does not say that the runtime is deaf", err)
				}
				close(answer) // too late for the report
				synctest.Wait()
				if got := workers.calls.take(); len(got) != 2 || len(report.Pods) != 2 || !report.Pods[0].Released || !report.Pods[1].Released {
					t.Errorf("told %v, %+v", got, report)
				}
			})
		})
	}
}

// TestDeafRemovalHoldsNoShutdown: a removal that ignores the end of its context costs no more than one
// that hears, and what it answers later does not change the report (section 16).
func TestDeafRemovalHoldsNoShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newShutdown(t, newStatic("deaf"), newStatic("well"))
		answer := make(chan struct{})
		s.RemovePod = func(_ context.Context, uid types.UID) error {
			if uid == "well" {
				return nil
			}
			<-answer
			return errors.New("too late")
		}
		began := time.Now()
		report, err := s.Run(t.Context(), shutdown.Plan{})
		if took := time.Since(began); err != nil || took != removeTimeout+deafAfter || report.Ended.IsZero() {
			t.Errorf("%+v, %v after %v", report, err, took)
		}
		before := slices.Clone(report.Pods)
		close(answer)
		synctest.Wait()
		if !slices.Equal(before, report.Pods) || !strings.Contains(before[0].Problem, foreign.ErrDeaf.Error()) || before[1].Problem != "" {
			t.Errorf("%+v, and later %+v", before, report.Pods)
		}
	})
}

// TestDeafListHoldsNoDrain beyond its context: what the workers know is removed all the same.
func TestDeafListHoldsNoDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		d := &drained{listed: []*runtime.Pod{runningPod("unknown")}, asked: func() { <-answer }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		err := d.run(ctx)
		if took := time.Since(began); !errors.Is(err, foreign.ErrDeaf) || took != time.Minute+deafAfter {
			t.Errorf("%v after %v", err, took)
		}
		close(answer)
		synctest.Wait()
		if got := d.take(); !slices.Equal(got, []string{"terminate", "list"}) {
			t.Errorf("calls %v", got)
		}
	})
}

// TestAnsweredHears: a call that returns soon after the end of its context gives its own reason, and
// a panic is an error.
func TestAnsweredHears(t *testing.T) {
	own := errors.New("my reason")
	for name, test := range map[string]struct {
		call func(ctx context.Context) (*v1.Pod, error)
		want func(err error) bool
	}{
		"hears": {func(ctx context.Context) (*v1.Pod, error) {
			<-ctx.Done()
			<-time.After(deafAfter / 2)
			return nil, own
		}, func(err error) bool { return errors.Is(err, own) }},
		"panics": {func(context.Context) (*v1.Pod, error) { panic("broken") }, func(err error) bool {
			return errors.As(err, new(*foreign.PanicError))
		}},
		"is deaf": {func(context.Context) (*v1.Pod, error) {
			<-time.After(time.Hour)
			return newPod("late"), nil
		}, func(err error) bool {
			return errors.Is(err, foreign.ErrDeaf) && errors.Is(err, context.DeadlineExceeded)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := newShutdown(t)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if got, err := answered(ctx, s.Clock, "Call", test.call); got != nil || !test.want(err) {
					t.Errorf("%v, %v", got, err)
				}
				<-time.After(time.Hour)
			})
		})
	}
}

// TestDeafCallHoldsNoOtherPodOfADrain: IN1. A call for one pod that ignores the end of its context, or only hangs
// until then, keeps no other pod from being stopped and removed; the drain ends with its context and names that pod.
func TestDeafCallHoldsNoOtherPodOfADrain(t *testing.T) {
	for call, removed := range map[string]bool{"read": false, "kill": false, "remove": false, "folder": false, "read by all": true} {
		for _, hears := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, hears %v", call, hears), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					answer := make(chan struct{})
					call, all := strings.CutSuffix(call, " by all")
					d := &drained{stuck: func(ctx context.Context, at string) error {
						if at != call+" 000" && !(all && strings.HasPrefix(at, call)) {
							return nil
						}
						if hears {
							<-ctx.Done()
							return context.Cause(ctx)
						}
						<-answer
						return nil
					}}
					for i := range 100 {
						d.listed = append(d.listed, runningPod(types.UID(fmt.Sprintf("%03d", i))))
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					var others atomic.Int64
					began := time.Now()
					d.forgot = func() { others.Store(int64(time.Since(began))) }
					err := d.run(ctx)
					late := deafAfter
					if hears {
						late = 0
					}
					want := time.Minute + late
					if call == "read" {
						want = drainReadLimit + late // it is told to stop as it is listed
					}
					if took := time.Since(began); err == nil || took != want || errors.Is(err, foreign.ErrDeaf) == hears {
						t.Errorf("%v after %v, want %v", err, took, want)
					}
					if last := time.Duration(others.Load()); last > drainReadLimit+time.Second {
						t.Errorf("the last pod was removed after %v", last)
					}
					close(answer)
					synctest.Wait()
					got, forgot, told := d.take(), 0, 0
					for _, line := range got {
						if strings.HasPrefix(line, "forget ") {
							forgot++
						}
						if strings.HasPrefix(line, "kill ") {
							told++
						}
					}
					if told != 100 || !removed && (forgot != 99 || slices.Contains(got, "forget 000") || strings.Count(err.Error(), "\n") != 0 || !strings.Contains(err.Error(), "(000)")) {
						t.Errorf("%d told to stop, %d removed: %v", told, forgot, err)
					}
				})
			})
		}
	}
}

// TestDrainKeepsToTheRate: DR6. Pods that wait for the removal rate together do not exceed it.
func TestDrainKeepsToTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perSecond = 10
		var granted atomic.Int64
		began := time.Now()
		d := &drained{permit: func(cleanup.Action) rule.Denial {
			n := granted.Load()
			if float64(n) > perSecond*time.Since(began).Seconds() {
				return rule.RateLimited.Because("the rate is used up")
			}
			<-time.After(time.Millisecond) // the host is asked
			granted.Store(n + 1)
			if float64(n) > perSecond*time.Since(began).Seconds()+1 {
				t.Errorf("%d after %v", n, time.Since(began))
			}
			return rule.Denial{}
		}}
		for i := range 50 {
			d.listed = append(d.listed, &runtime.Pod{UID: types.UID(fmt.Sprintf("%03d", i))})
		}
		if err := d.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := granted.Load(); n != 100 || time.Since(began) < 9*time.Second {
			t.Errorf("%d permits in %v", n, time.Since(began))
		}
	})
}

// TestStuckPodHoldsNoOtherPodOfADrain: IN1. While the workers cannot stop one pod, those without a worker are told to stop,
// and those that have finished are removed; the error names only that pod.
func TestStuckPodHoldsNoOtherPodOfADrain(t *testing.T) {
	for name, deaf := range map[string]bool{"": false, "the first list is not answered": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var finished podworkers.State
				if err := finished.UnmarshalText([]byte("finished")); err != nil {
					t.Fatal(err)
				}
				answer := make(chan struct{})
				d := &drained{
					known:  []podworkers.Explanation{{UID: "stuck"}, {UID: "later"}, {UID: "web", State: finished}},
					listed: []*runtime.Pod{runningPod("orphan"), runningPod("stuck"), runningPod("later")},
					stops:  func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) },
					fails:  map[string]error{"kill stuck": errors.New("no")},
				}
				if deaf {
					d.asked = sync.OnceFunc(func() { <-answer })
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				ended := make(chan error)
				go func() { ended <- d.run(ctx) }()
				<-time.After(2 * time.Second)
				synctest.Wait()
				want := "read kill remove folder forget"
				if deaf {
					want = ""
				}
				if got := d.of("orphan"); got != want {
					t.Errorf("orphan: %q, want %q", got, want)
				}
				if got := d.of("web"); got != "remove folder forget" {
					t.Errorf("web: %q", got)
				}
				if got := d.of("stuck") + d.of("later"); got != "" {
					t.Errorf("the workers stop them: %q", got)
				}
				close(answer)
				d.reach("later", finished)
				<-time.After(3 * time.Second)
				synctest.Wait()
				if got := d.of("later"); got != "remove folder forget" {
					t.Errorf("later: %q", got)
				}
				if got := d.of("orphan"); got != "read kill remove folder forget" {
					t.Errorf("orphan: %q", got)
				}
				if err := <-ended; err == nil || strings.Contains(err.Error(), "(web)") || strings.Contains(err.Error(), "(later)") || !strings.Contains(err.Error(), "(stuck)") {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// TestDrainTriesAgainWhatFailedMeanwhile: a runtime that is away while the workers stop leaves nothing behind.
func TestDrainTriesAgainWhatFailedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var finished podworkers.State
		if err := finished.UnmarshalText([]byte("finished")); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		d := &drained{
			known:  []podworkers.Explanation{{UID: "slow"}, {UID: "web", State: finished}},
			listed: []*runtime.Pod{runningPod("orphan")},
			stops:  func(context.Context) error { <-time.After(10 * time.Second); return nil },
			stuck: func(context.Context, string) error {
				if time.Since(began) < 5*time.Second {
					return errors.New("connection refused")
				}
				return nil
			},
		}
		if err := d.run(t.Context()); err != nil {
			t.Error(err)
		}
		for pod, want := range map[string]string{"web": "remove remove folder forget", "orphan": "read kill read kill remove folder forget", "slow": "remove folder forget"} {
			if got := d.of(pod); got != want {
				t.Errorf("%s: %q, want %q", pod, got, want)
			}
		}
	})
}

// statsFunc reads no node.
type statsFunc func(ctx context.Context) (eviction.Usage, error)

func (f statsFunc) Node(ctx context.Context) (map[eviction.Signal]eviction.Observation, error) {
	used, err := f(ctx)
	return map[eviction.Signal]eviction.Observation{eviction.MemoryAvailable: {Available: used.Memory}}, err
}

func (f statsFunc) Pod(ctx context.Context, _ *v1.Pod, _ eviction.Signal) (eviction.Usage, error) {
	return f(ctx)
}

// TestPartlyReadStatsOfAUserCount: section 16: what stats have read when their context ends counts, beside their error; stats
// that never return are left.
func TestPartlyReadStatsOfAUserCount(t *testing.T) {
	for name, late := range map[string]time.Duration{"hear": statsLate / 2, "are deaf": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newUsers()
				stats := u.Stats(statsFunc(func(ctx context.Context) (eviction.Usage, error) {
					<-ctx.Done()
					<-time.After(late)
					return eviction.Usage{Memory: 7}, context.Cause(ctx)
				}))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				used, err := stats.Pod(ctx, newPod("a"), eviction.MemoryAvailable)
				node, nodeErr := stats.Node(ctx)
				want := map[bool]uint64{true: 7}[late < statsLate]
				if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(nodeErr, context.DeadlineExceeded) || used.Memory != want || node[eviction.MemoryAvailable].Available != want {
					t.Errorf("%v, %v; %v, %v", used, err, node, nodeErr)
				}
				if took := time.Since(began); took != time.Second+2*min(late, statsLate) {
					t.Errorf("took %v", took)
				}
				<-time.After(late)
			})
		})
	}
}

// TestDrainOfPodsThatAreListedAgain: a drain that has removed a pod which the runtime did not list for a while
// stops and removes it once it is listed again, before it says that every pod is gone (pleg.md R7).
func TestDrainOfPodsThatAreListedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var finished podworkers.State
		if err := finished.UnmarshalText([]byte("finished")); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		d := &drained{
			known:  []podworkers.Explanation{{UID: "slow"}, {UID: "web", State: finished}},
			listed: []*runtime.Pod{{UID: "web"}, runningPod("orphan")}, stale: true,
			stops: func(context.Context) error { <-time.After(10 * time.Second); return nil },
		}
		left := map[string]bool{"web": true, "orphan": true}
		runs := true
		d.stuck = func(_ context.Context, call string) error {
			if time.Since(began) < 5*time.Second {
				return nil // the runtime does not show the pod, so there is nothing to do
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			switch call {
			case "kill orphan":
				runs = false
			case "remove orphan":
				if runs {
					return errors.New("it runs")
				}
				delete(left, "orphan")
			case "remove web":
				delete(left, "web")
			}
			return nil
		}
		if err := d.run(t.Context()); err != nil || len(left) > 0 {
			t.Errorf("%v, and the runtime has %v", err, left)
		}
	})
}

// TestDrainErrorNamesOnlyWhatIsLeft: a pod that was removed by a call that failed is not named.
func TestDrainErrorNamesOnlyWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		d := &drained{known: []podworkers.Explanation{{UID: "slow"}}, listed: []*runtime.Pod{runningPod("orphan")}}
		d.stops = func(context.Context) error {
			<-time.After(10 * time.Second)
			d.listed = nil // removed all the same; no list is under way
			return nil
		}
		d.stuck = func(_ context.Context, call string) error {
			if call == "remove orphan" && time.Since(began) < 5*time.Second {
				return errors.New("no answer")
			}
			return nil
		}
		if err := d.run(t.Context()); err != nil {
			t.Error(err)
		}
		if got := d.of("orphan"); got != "read kill remove remove folder forget" {
			t.Errorf("orphan: %q", got)
		}
	})
}

// TestDrainBeginsNothingAfterItsContext: a drain that was given up stops no other pod, and ends 0.1 s later also if
// several calls for a pod are deaf.
func TestDrainBeginsNothingAfterItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		var late []string
		began := time.Now()
		d := &drained{
			known:  []podworkers.Explanation{{UID: "slow"}, {UID: "web"}},
			listed: []*runtime.Pod{runningPod("orphan"), runningPod("slow")},
			stops:  func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) },
		}
		d.stuck = func(_ context.Context, call string) error {
			if time.Since(began) >= 5*time.Second {
				d.mu.Lock()
				late = append(late, call)
				d.mu.Unlock()
			}
			<-answer
			return nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err := d.run(ctx)
		if took := time.Since(began); took != 5*time.Second+deafAfter || len(late) > 0 {
			t.Errorf("after %v: %v, begun after the end: %v", took, err, late)
		}
		for _, pod := range []string{"(orphan)", "(slow)", "(web)"} {
			if err == nil || !strings.Contains(err.Error(), pod) {
				t.Errorf("%v does not name %s", err, pod)
			}
		}
		close(answer)
		synctest.Wait()
	})
}

// TestDrainLooksAgainForPods: pleg.md R7. A pod without a worker that the runtime did not show when the drain removed it is
// removed once it is listed again, if another pod takes that long to stop.
func TestDrainLooksAgainForPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		d := &drained{listed: []*runtime.Pod{runningPod("slow"), {UID: "web"}}, stale: true}
		left := true
		d.stuck = func(_ context.Context, call string) error {
			switch call {
			case "kill slow":
				<-time.After(time.Minute)
			case "remove web":
				d.mu.Lock()
				defer d.mu.Unlock()
				if time.Since(began) > 5*time.Second {
					left, d.listed = false, nil
				}
			}
			return nil
		}
		if err := d.run(t.Context()); err != nil || left {
			t.Errorf("%v, is it left: %v", err, left)
		}
		if got := d.of("slow"); strings.Count(got, "kill") > 1+drainRounds {
			t.Errorf("slow: %q", got)
		}
	})
}

// TestDrainIsOverWithoutALastLook: a runtime that stops once all pods are gone keeps no drain from its end.
func TestDrainIsOverWithoutALastLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := 0
		d := &drained{listed: []*runtime.Pod{{UID: "web"}}}
		d.asked = func() {
			if lists++; lists > 1 {
				<-time.After(time.Hour)
			}
		}
		began := time.Now()
		if err := d.run(t.Context()); err != nil || time.Since(began) != drainReadLimit+deafAfter {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		<-time.After(2 * time.Hour)
	})
}
