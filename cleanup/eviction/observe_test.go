package eviction

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/instrument/instrumenttest"
)

// TestObserversWaitForEachOtherOnlyAMoment: OS5. An observer that answers late, hangs, panics or fails costs
// the others at most a second, is not called again while a call is in progress, and is logged once and listed.
func TestObserversWaitForEachOtherOnlyAMoment(t *testing.T) {
	for name, test := range map[string]struct {
		observe func(ctx context.Context, call int32) (Observation, error)
		read    []int  // the passes in which a reading counts
		calls   int32  // in 5 passes
		listed  string // after them, empty if it is no problem
	}{
		"prompt": {func(context.Context, int32) (Observation, error) { return Observation{Low: true}, nil }, []int{0, 1, 2, 3, 4}, 5, ""},
		"late": {func(context.Context, int32) (Observation, error) {
			<-time.After(3 * time.Second)
			return Observation{Low: true}, nil
		}, []int{1, 2, 3, 4}, 5, ""},
		"hangs until its context ends": {func(ctx context.Context, _ int32) (Observation, error) {
			<-ctx.Done()
			return Observation{}, ctx.Err()
		}, nil, 5, "a reading of the eviction signal: "},
		"hangs": {func(context.Context, int32) (Observation, error) {
			<-time.After(48 * time.Second)
			return Observation{Low: true}, nil
		}, nil, 1, "a reading of the eviction signal: Eviction.Policy.Own.Observe, called at "},
		"hangs once": {func(_ context.Context, call int32) (Observation, error) {
			if call == 2 {
				<-time.After(25 * time.Second)
			}
			return Observation{Low: true}, nil
		}, []int{0, 4}, 3, ""},
		"panics": {func(context.Context, int32) (Observation, error) { panic("no sensor") }, nil, 5, "Own.Observe to succeed: "},
		"fails": {func(context.Context, int32) (Observation, error) {
			return Observation{Low: true}, errors.New("no sensor")
		}, nil, 5, "a reading of the eviction signal: no sensor"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lines []string
				log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
				var calls atomic.Int32
				o := newObservers([]OwnSignal{
					{Name: "bad", Observer: ObserverFunc(func(ctx context.Context) (Observation, error) { return test.observe(ctx, calls.Add(1)) })},
					{Name: "good", Observer: ObserverFunc(func(context.Context) (Observation, error) { return Observation{Available: 1}, nil })},
				}, clock.RealClock{}, log)
				ctx, cancel := context.WithCancel(t.Context())
				var read []int
				for pass := range 5 {
					began := time.Now()
					o.begin(ctx)
					got := o.collect(ctx)
					if took := time.Since(began); took > observeWait || got["good"].Available != 1 {
						t.Errorf("pass %d took %v: %v", pass, took, got)
					}
					if got["bad"].Low {
						read = append(read, pass)
					}
					<-time.After(period)
				}
				var listed []string
				for _, p := range o.problems() {
					if p.Name != "bad" {
						t.Errorf("problem %v", p)
					}
					listed = append(listed, p.String())
				}
				if !slices.Equal(read, test.read) || calls.Load() != test.calls {
					t.Errorf("read in passes %v, want %v; %d calls, want %d", read, test.read, calls.Load(), test.calls)
				}
				switch {
				case test.listed == "" && len(listed) > 0, test.listed != "" && (len(listed) != 1 || !strings.Contains(listed[0], test.listed)):
					t.Errorf("problems %q, want one with %q", listed, test.listed)
				case test.listed != "" && (len(lines) != 1 || !strings.Contains(lines[0], "cannot be read")):
					t.Errorf("log %q, want one line", lines)
				}
				cancel()
				o.leave()
			})
		})
	}
}

// TestSignalsAreLoggedWithoutALock: a logger may take as long as it likes, and ask for the problems.
func TestSignalsAreLoggedWithoutALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o *observers
		lines, fails := 0, true
		o = newObservers([]OwnSignal{{Name: "flaky", Observer: ObserverFunc(func(context.Context) (Observation, error) {
			if fails {
				return Observation{}, errors.New("no answer")
			}
			return Observation{}, nil
		})}}, clock.RealClock{}, funcr.New(func(string, string) {
			lines++
			if !o.mu.TryLock() { // nothing else runs
				t.Error("logged with the lock held")
				return
			}
			o.mu.Unlock()
		}, funcr.Options{}))
		for range 2 {
			o.begin(t.Context())
			synctest.Wait()
			fails = false
		}
		o.leave()
		if lines != 2 {
			t.Errorf("%d lines", lines)
		}
	})
}

// TestOldObservationsDoNotCount: OS5. A reading that came long before the pass that looks at it is dropped.
func TestOldObservationsDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newObservers([]OwnSignal{{Name: "slow", Observer: ObserverFunc(func(ctx context.Context) (Observation, error) {
			<-time.After(5 * time.Second)
			return Observation{Low: true}, nil
		})}}, clock.RealClock{}, funcr.New(func(string, string) {}, funcr.Options{}))
		for _, test := range []struct {
			pause time.Duration
			want  int
		}{{29 * time.Second, 1}, {35 * time.Second, 0}} {
			o.begin(t.Context())
			o.await(t.Context())
			<-time.After(test.pause)
			if got := o.collect(t.Context()); len(got) != test.want {
				t.Errorf("after %v: %v, want %d", test.pause, got, test.want)
			}
		}
	})
}

// TestDeafObserverIsLeft: OS5. The manager ends within seconds, without an observer that does not.
func TestDeafObserverIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		release := make(chan struct{})
		defer close(release)
		o := newObservers([]OwnSignal{{Name: "deaf", Observer: ObserverFunc(func(context.Context) (Observation, error) {
			<-release
			return Observation{}, nil
		})}}, clock.RealClock{}, funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
		ctx, cancel := context.WithCancel(t.Context())
		o.begin(ctx)
		o.collect(ctx)
		cancel()
		began := time.Now()
		o.leave()
		if took := time.Since(began); took > 5*time.Second || len(lines) != 1 || !strings.Contains(lines[0], `"object"="deaf"`) {
			t.Errorf("left after %v, log %q", took, lines)
		}
	})
}

// TestManagerEvictsForOwnSignals: section 16, OS1 to OS4. One pod per pass is evicted, without reading what
// pods use; the node's own signals continue to work; the condition, the counter and the event say what it was.
func TestManagerEvictsForOwnSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{begin: time.Now(), pods: []*v1.Pod{pod("b"), pod("a", withPriority(5)), pod("critical", withPriority(2_000_000_000))}}
		meter := &instrumenttest.Meter{}
		charge := func(context.Context) (Observation, error) {
			return Observation{Available: uint64(5 * (4 - len(n.pods))), Capacity: 100}, nil
		}
		m, err := New(Options{
			Stats: noUsage{n}, Killer: n, Recorder: n, NodeName: "n1", Pods: func() []*v1.Pod { return slices.Clone(n.pods) }, Meter: meter,
			Changed: func() { n.note("conditions changed") },
			Policy: Policy{
				Thresholds: []Threshold{{Signal: "battery.charge", Value: Value{Percent: 10}}},
				Own:        []OwnSignal{{Name: "battery.charge", Condition: "BatteryLow", Message: "the battery is nearly empty", Observer: ObserverFunc(charge)}},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		if err := m.Run(ctx); err != nil {
			t.Error(err)
		}
		expect(t, strings.Join(n.log, "\n"),
			"0s conditions changed",
			"0s event node Warning EvictionThresholdMet: Eviction signal battery.charge: the battery is nearly empty. Threshold quantity: 10, available: 5.",
			"0s event b Warning Evicted: Eviction signal battery.charge: the battery is nearly empty. Threshold quantity: 10, available: 5.",
			"0s kill b grace 1: Failed Evicted DisruptionTarget")
		c := m.Conditions()
		if len(c) != 4 || c[3].Type != "BatteryLow" || c[3].Status != v1.ConditionTrue || c[3].Reason != "NodeHasBatteryLow" || c[3].Message != "the battery is nearly empty" {
			t.Errorf("conditions %+v", c)
		}
		if ok, why := m.Admit(pod("new")); ok || !strings.Contains(why, "[BatteryLow]") {
			t.Errorf("a new pod: %v, %s", ok, why)
		}
		if got := meter.Take()["kubelet_evictions{eviction_signal=battery.charge}"]; got != 1 {
			t.Errorf("counted %v", got)
		}
		if begun := fmt.Sprint(meter.Begun()); !strings.Contains(begun, "memory.available") || !strings.Contains(begun, "battery.charge") {
			t.Errorf("counters that begin at 0: %s", begun)
		}
	})
}

// noUsage fails for each pod of which it is asked what it uses.
type noUsage struct{ *node }

func (n noUsage) Pod(context.Context, *v1.Pod, Signal) (Usage, error) {
	panic("asked for the usage of something that pods do not use")
}

// TestOwnSignalsWaitForPodsThatLeave: OS3, IN4. It is not known what a stopping pod frees: the
// first eviction waits for it, a minute at most.
func TestOwnSignalsWaitForPodsThatLeave(t *testing.T) {
	for name, test := range map[string]struct {
		leaves int // seconds that the other pod takes to stop
		want   string
	}{
		"soon over": {15, "20s kill a"}, "forever": {1000, "60s kill a"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{begin: time.Now(), pods: []*v1.Pod{pod("a")}}
				leaving := func() []*v1.Pod {
					if time.Since(n.begin) < time.Duration(test.leaves)*time.Second {
						return []*v1.Pod{pod("leaver", withGrace(600))}
					}
					return nil
				}
				m, err := New(Options{
					Stats: n, Killer: n, Pods: func() []*v1.Pod { return slices.Clone(n.pods) }, Leaving: leaving,
					Policy: Policy{
						Thresholds: []Threshold{{Signal: "licence"}},
						Own: []OwnSignal{{Name: "licence", Condition: "Unlicensed", Message: "m", Observer: ObserverFunc(func(context.Context) (Observation, error) {
							moment()
							return Observation{Low: true}, nil
						})}},
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 65*time.Second)
				defer cancel()
				_ = m.Run(ctx)
				if got := strings.Join(n.log, "\n"); !strings.HasPrefix(got, test.want) {
					t.Errorf("happened %q, want %s", got, test.want)
				}
			})
		})
	}
}
