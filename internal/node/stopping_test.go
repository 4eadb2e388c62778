package node

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/syncloop/shutdown"
)

// runtimeList is a runtime that lists pods once it answers.
type runtimeList struct {
	pods    []*runtime.Pod
	answers time.Time
	asked   func() // unless nil
}

var errNoRuntime = errors.New("the runtime is down")

func (l *runtimeList) ListPods(context.Context) ([]*runtime.Pod, error) {
	if l.asked != nil {
		l.asked()
	}
	if time.Now().Before(l.answers) {
		return nil, errNoRuntime
	}
	return l.pods, nil
}

// start is a start that remembers some pods.
type start struct {
	opened     chan struct{}
	remembered map[types.UID]*v1.Pod
}

var errStarting = errors.New("the runtime has not been read")

func over() *start {
	s := &start{opened: make(chan struct{})}
	close(s.opened)
	return s
}

func (s *start) OpenedC() <-chan struct{} { return s.opened }

func (s *start) Gate() error {
	select {
	case <-s.opened:
		return nil
	default:
		return errStarting
	}
}

func (s *start) Remembered(uid types.UID) *v1.Pod { return s.remembered[uid] }

func (s *start) KillRunning(p *runtime.Pod, desired *v1.Pod, kill podworkers.KillOptions) podworkers.UpdateOptions {
	u := podworkers.UpdateOptions{Type: podworkers.Kill, Pod: desired, RunningPod: p, Kill: &kill}
	if desired == nil {
		u.Pod = s.remembered[p.UID]
	}
	return u
}

// queued is the outcome of an update that counts.
const queued podworkers.Outcome = 1

func (s *stopper) UpdatePod(u podworkers.UpdateOptions) podworkers.Outcome {
	name := "unknown " + string(u.RunningPod.UID)
	if u.Pod != nil {
		name = string(u.Pod.UID)
	}
	s.calls.add("kill " + name + " without a worker")
	time.AfterFunc(s.stop[u.RunningPod.UID], func() { close(u.Kill.Completed) })
	if s.rejects {
		return 0
	}
	return queued
}

func listed(uid types.UID) *runtime.Pod {
	return &runtime.Pod{UID: uid, Name: string(uid), Namespace: "default", Sandboxes: []*runtime.Sandbox{{State: runtime.Running}}}
}

// TestShutdownStopsPodsWithoutWorkers: after a start no pod has a worker until its source has named
// it and the runtime was read. Such pods stop too, each in its group (section 16).
func TestShutdownStopsPodsWithoutWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, workers := newShutdown(t, withPriority("known", 50))
		s.Start = &start{opened: make(chan struct{}), remembered: map[types.UID]*v1.Pod{"remembered": withPriority("remembered", 100)}}
		time.AfterFunc(time.Second, func() { close(s.Start.(*start).opened) })
		s.Runtime = &runtimeList{pods: []*runtime.Pod{listed("known"), listed("remembered"), listed("leftover"), {UID: "ended"}}, answers: time.Now().Add(2 * time.Second)}
		plan := shutdown.Plan{Groups: []shutdown.Group{{Priority: 0, Time: 10 * time.Second}, {Priority: 50, Time: 10 * time.Second}, {Priority: 100, Time: 10 * time.Second}}}
		report, err := s.Run(t.Context(), plan)
		if err != nil || report.Ended.IsZero() {
			t.Error(report, err)
		}
		want := []string{"kill unknown leftover without a worker", "kill known", "kill remembered without a worker"}
		if got := workers.calls.take(); !slices.Equal(got, want) {
			t.Errorf("calls %v, want %v", got, want)
		}
		for i, group := range []int32{0, 50, 100} {
			if p := report.Pods[i]; p.Group != group || !p.Stopped || !p.Released {
				t.Errorf("%+v", p)
			}
		}
	})
}

// TestShutdownThatKnowsTooLittleFails: it must not be said that all pods have stopped. The node
// takes pods again, and the shutdown may be repeated.
func TestShutdownThatKnowsTooLittleFails(t *testing.T) {
	plan := shutdown.Plan{Groups: []shutdown.Group{{Time: 10 * time.Second}}}
	for name, test := range map[string]struct {
		starting bool
		answers  time.Duration
		want     error
		took     time.Duration
		calls    []string
	}{
		"the start is not over":         {true, 0, errStarting, 10 * time.Second, nil},
		"the runtime is down":           {false, time.Hour, errNoRuntime, 10 * time.Second, []string{"kill known"}},
		"the runtime answers very late": {false, 5 * time.Second, nil, 0, []string{"kill known", "kill unknown leftover without a worker"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, workers := newShutdown(t, newPod("known"))
				if test.starting {
					s.Start = &start{opened: make(chan struct{})}
				}
				s.Runtime = &runtimeList{pods: []*runtime.Pod{listed("leftover")}, answers: time.Now().Add(test.answers)}
				began := time.Now()
				report, err := s.Run(t.Context(), plan)
				if !errors.Is(err, test.want) || (err == nil) != (test.want == nil) || errors.Is(err, errRunningUnknown) != (test.want != nil) {
					t.Errorf("%v, want %v", err, test.want)
				}
				if test.took != 0 && time.Since(began) != test.took {
					t.Errorf("took %v", time.Since(began))
				}
				if got := workers.calls.take(); !slices.Equal(got, test.calls) {
					t.Errorf("calls %v, want %v", got, test.calls)
				}
				if last, _ := s.Last(); s.Active() != (err == nil) || report.Ended.IsZero() == (err == nil) || last.Ended.IsZero() == (err == nil) {
					t.Errorf("active %v, %+v, %+v", s.Active(), report, last)
				}
			})
		})
	}
}

// TestShutdownTellsEachPodOnce, in the way that its worker takes: with what the runtime says, also if a worker stops it
// already that knows no more than that.
func TestShutdownTellsEachPodOnce(t *testing.T) {
	for name, test := range map[string]struct {
		desired, known, finished bool // when the runtime is asked
		later                    func(l *lives)
		want                     []string
	}{
		"only the runtime has it":               {false, false, false, nil, []string{"kill unknown x without a worker"}},
		"housekeeping stops it":                 {false, true, false, nil, []string{"kill unknown x without a worker"}},
		"desired":                               {true, false, false, nil, []string{"kill x without a worker"}},
		"desired, gets a worker":                {true, false, false, func(l *lives) { l.known["x"] = true }, []string{"kill x"}},
		"desired, with a worker":                {true, true, false, nil, []string{"kill x"}},
		"desired, finishes while it is listed":  {true, true, false, func(l *lives) { l.finished["x"] = true }, nil},
		"not desired, is listed after its end":  {false, false, false, func(l *lives) { l.known["x"], l.finished["x"] = true, true }, []string{"kill unknown x without a worker"}},
		"desired, has finished, and runs again": {true, true, true, nil, []string{"kill x"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, workers := newShutdown(t)
				l := s.Residents.Lives.(*lives)
				if test.desired {
					s.Residents.Desired = desire(newPod("x"))
				}
				l.known["x"], l.finished["x"] = test.known, test.finished
				s.Runtime = &runtimeList{pods: []*runtime.Pod{listed("x")}, asked: func() {
					if test.later != nil {
						test.later(l)
					}
				}}
				report, err := s.Run(t.Context(), shutdown.Plan{})
				if got := workers.calls.take(); err != nil || !slices.Equal(got, test.want) || len(report.Pods) != len(test.want) {
					t.Errorf("calls %v, want %v; %+v, %v", got, test.want, report, err)
				}
				for _, p := range report.Pods {
					if want := map[bool]int64{true: 30, false: leftoverGrace}[test.desired]; p.Grace != want {
						t.Errorf("%d s, want %d", p.Grace, want)
					}
				}
			})
		})
	}
}

// TestShortShutdownIsForItsPods: the wait for the runtime takes little of the time that they need.
func TestShortShutdownIsForItsPods(t *testing.T) {
	for _, all := range []time.Duration{time.Second, 2 * time.Second, 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s, workers := newShutdown(t, newPod("known"))
			workers.stop["known"] = 500 * time.Millisecond
			s.Runtime = &runtimeList{answers: time.Now().Add(all / 2)}
			report, err := s.Run(t.Context(), shutdown.Plan{Groups: []shutdown.Group{{Time: all}}})
			if err != nil || len(report.Pods) != 1 || !report.Pods[0].Released {
				t.Errorf("%v: %+v, %v", all, report, err)
			}
		})
	}
}

// TestShutdownTakesNoLongerThanItsPlan: the time that the start takes is missing at the end.
func TestShutdownTakesNoLongerThanItsPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, workers := newShutdown(t, withPriority("low", 0), withPriority("high", 100))
		workers.stop["low"], workers.stop["high"] = time.Hour, time.Hour
		s.Start = &start{opened: make(chan struct{})}
		time.AfterFunc(8*time.Second, func() { close(s.Start.(*start).opened) })
		began := time.Now()
		report, err := s.Run(t.Context(), shutdown.Plan{Groups: []shutdown.Group{{Time: 10 * time.Second}, {Priority: 100, Time: 10 * time.Second}}})
		if took := time.Since(began); err != nil || took != 20*time.Second {
			t.Errorf("took %v, %v", took, err)
		}
		if report.Pods[0].Problem != "the time of its group, 10s, is over" || report.Pods[1].Problem != errPlanOver.Error() {
			t.Errorf("%+v", report)
		}
	})
}

// TestShutdownWithoutALimit (section 16): times that are longer together than a duration can be are as long as one can be.
func TestShutdownWithoutALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, workers := newShutdown(t, withPriority("low", 0), withPriority("high", 100))
		workers.stop["low"], workers.stop["high"] = time.Hour, time.Hour
		s.Start = &start{opened: make(chan struct{})}
		time.AfterFunc(8*time.Second, func() { close(s.Start.(*start).opened) })
		report, err := s.Run(t.Context(), shutdown.Plan{Groups: []shutdown.Group{{Time: math.MaxInt64}, {Priority: 100, Time: math.MaxInt64}}})
		if err != nil || len(report.Pods) != 2 || !report.Pods[0].Released || !report.Pods[1].Released {
			t.Errorf("%+v, %v", report, err)
		}
	})
}

// TestShutdownLooksOnceMore, for a second, if its pods took all the time there was.
func TestShutdownLooksOnceMore(t *testing.T) {
	for answers, want := range map[time.Duration]bool{10500 * time.Millisecond: true, 12 * time.Second: false} {
		synctest.Test(t, func(t *testing.T) {
			s, workers := newShutdown(t, newPod("known"))
			workers.stop["known"] = time.Hour
			s.Runtime = &runtimeList{pods: []*runtime.Pod{listed("leftover")}, answers: time.Now().Add(answers)}
			began := time.Now()
			report, err := s.Run(t.Context(), shutdown.Plan{Groups: []shutdown.Group{{Time: 10 * time.Second}}})
			told := slices.Contains(workers.calls.take(), "kill unknown leftover without a worker")
			if (err == nil) != want || told != want || report.Ended.IsZero() == want || time.Since(began) > 11*time.Second {
				t.Errorf("%v: told %v, %+v, %v after %v", answers, told, report, err, time.Since(began))
			}
		})
	}
}

// TestShutdownWithoutKnowledgeWaitsForNoSink: a shutdown that stopped no pod waits for no status.
func TestShutdownWithoutKnowledgeWaitsForNoSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, workers := newShutdown(t)
		workers.flush = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		s.Start = &start{opened: make(chan struct{})}
		began := time.Now()
		if _, err := s.Run(t.Context(), shutdown.Plan{}); !errors.Is(err, errStarting) || time.Since(began) != shutdown.DefaultTime {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestShutdownIsOverWhenTheWorkersEnd: nothing stops the pods any more.
func TestShutdownIsOverWhenTheWorkersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, workers := newShutdown(t, newPod("a"))
		s.ErrStopped, workers.err = errors.New("the engine has ended"), podworkers.ErrStopped
		report, err := s.Run(t.Context(), shutdown.Plan{})
		if !errors.Is(err, s.ErrStopped) || !report.Ended.IsZero() || report.Pods[0].Stopped {
			t.Errorf("%+v, %v", report, err)
		}
		if last, _ := s.Last(); !last.Ended.IsZero() {
			t.Errorf("recorded as ended: %+v", last)
		}
	})
}

// TestShutdownTellsNothingToWorkersThatHaveStopped: a pod that only the runtime knows was then not told to stop, so
// it must not be said that it has (section 16).
func TestShutdownTellsNothingToWorkersThatHaveStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		workers := podworkers.New(nil, podworkers.Options{})
		if err := workers.Stop(t.Context(), podworkers.Detach); err != nil {
			t.Fatal(err)
		}
		s, _ := newShutdown(t)
		s.Stopper, s.ErrStopped = workers, errors.New("the engine has ended")
		s.Runtime = &runtimeList{pods: []*runtime.Pod{listed("leftover")}}
		report, err := s.Run(t.Context(), shutdown.Plan{})
		if !errors.Is(err, s.ErrStopped) || len(report.Pods) != 1 || report.Pods[0].Stopped || report.Pods[0].Released {
			t.Errorf("%+v, %v", report, err)
		}
		if last, _ := s.Last(); !last.Ended.IsZero() {
			t.Errorf("recorded as ended: %+v", last)
		}
	})
}

// TestShutdownOfAPodThatEndedMeanwhile: workers that know its end take no update, and it has stopped.
func TestShutdownOfAPodThatEndedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, workers := newShutdown(t)
		workers.rejects, workers.terminated = true, true
		s.Runtime = &runtimeList{pods: []*runtime.Pod{listed("leftover")}}
		report, err := s.Run(t.Context(), shutdown.Plan{})
		if err != nil || len(report.Pods) != 1 || !report.Pods[0].Stopped || !report.Pods[0].Released {
			t.Errorf("%+v, %v", report, err)
		}
	})
}

// TestCancelledShutdownStopsNoOtherGroup: what was not told to stop runs on.
func TestCancelledShutdownStopsNoOtherGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, workers := newShutdown(t, withPriority("low", 0), withPriority("high", 100))
		workers.stop["low"] = time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		report, err := s.Run(ctx, shutdown.Plan{Groups: []shutdown.Group{{Time: time.Minute}, {Priority: 100, Time: time.Minute}}})
		if got := workers.calls.take(); err == nil || len(report.Pods) != 1 || !slices.Equal(got, []string{"kill low"}) {
			t.Errorf("calls %v, %+v, %v", got, report, err)
		}
	})
}
