package podworkers_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// C2, L5, section 12: when a failed call is tried again.
func TestRetry(t *testing.T) {
	for _, test := range []struct {
		name    string
		options podworkers.Options
		err     error
		want    []time.Duration
	}{
		{"L5 doubling", podworkers.Options{}, errTest, []time.Duration{1, 2, 4, 8}},
		{"L5 limit", podworkers.Options{SetupBackOff: podworkers.BackOff{Initial: 200 * time.Second}}, errTest, []time.Duration{200, 300, 300}},
		{"L5 kubelet", podworkers.Options{SetupBackOff: podworkers.BackOff{Initial: 10 * time.Second, Max: 10 * time.Second}}, errTest, []time.Duration{10, 10, 10}},
		{"network by type", podworkers.Options{SetupBackOff: podworkers.BackOff{Initial: 10 * time.Second, Max: 10 * time.Second}}, fmt.Errorf("x: %w", podworkers.ErrNetworkNotReady), []time.Duration{1, 1}},
		{"network by text", podworkers.Options{SetupBackOff: podworkers.BackOff{Initial: 10 * time.Second, Max: 10 * time.Second}}, errors.New("cni: network is not ready: x"), []time.Duration{1, 1}},
		{
			"the earliest time in the tree",
			podworkers.Options{},
			fmt.Errorf("x: %w", errors.Join(retryIn(50*time.Second), fmt.Errorf("y: %w", retryIn(7*time.Second)), errTest)),
			[]time.Duration{7, 7},
		},
		{"not beyond the resync", podworkers.Options{}, retryIn(time.Hour), []time.Duration{60, 60}},
		{"a zero time is no moment", podworkers.Options{}, errors.Join(retryAt{}, fmt.Errorf("y: %w", retryIn(7*time.Second))), []time.Duration{7, 7}},
		{"a zero time alone", podworkers.Options{}, retryAt{}, []time.Duration{1, 2, 4, 8}},
		{"the smallest bound in the tree", podworkers.Options{SetupBackOff: podworkers.BackOff{Initial: 200 * time.Second}}, errors.Join(within(math.MaxInt64), within(0), fmt.Errorf("y: %w", within(10*time.Second))), []time.Duration{10, 10}},
		{"a bound beside another's moment", podworkers.Options{}, errors.Join(retryIn(50*time.Second), within(10*time.Second)), []time.Duration{1, 2, 4, 8, 10}},
		{"the back-off beside another's moment", podworkers.Options{}, errors.Join(retryIn(20*time.Second), within(math.MaxInt64)), []time.Duration{1, 2, 4, 8, 16, 20}},
		{"not in the past", podworkers.Options{}, retryIn(-time.Hour), []time.Duration{0}},
		{"and not at once forever", podworkers.Options{}, retryIn(-time.Hour), []time.Duration{0, 1, 1, 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var at []time.Time
				options := test.options
				options.Rand = func() float64 { return 0 }
				w := podworkers.New(podworkers.PodSyncerFuncs{
					Sync: func(context.Context, podworkers.UpdateType, *v1.Pod, *v1.Pod, *runtime.PodStatus) (podworkers.SyncResult, error) {
						at = append(at, time.Now())
						if len(at) > len(test.want) {
							return podworkers.SyncResult{}, nil
						}
						return podworkers.SyncResult{Terminal: true}, test.err // edge case 12: not terminal
					},
				}, options)
				stop := run(t, w)
				w.UpdatePod(create(newPod("a")))
				pass(1000 * time.Second)
				stop()
				for i, want := range test.want {
					if got := at[i+1].Sub(at[i]); got != want*time.Second {
						t.Errorf("pause %d: %v, want %v", i, got, want*time.Second)
					}
				}
			})
		})
	}
}

type retryIn time.Duration

func (r retryIn) Error() string      { return "wait" }
func (r retryIn) RetryAt() time.Time { return time.Now().Add(time.Duration(r)) }

type within time.Duration

func (w within) Error() string              { return "wait" }
func (w within) RetryWithin() time.Duration { return time.Duration(w) }

type retryAt struct{ time.Time }

func (r retryAt) Error() string      { return "wait" }
func (r retryAt) RetryAt() time.Time { return r.Time }

// Section 12: jitter adds up to half of the period.
func TestJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		w := podworkers.New(podworkers.PodSyncerFuncs{
			Sync: func(context.Context, podworkers.UpdateType, *v1.Pod, *v1.Pod, *runtime.PodStatus) (podworkers.SyncResult, error) {
				at = append(at, time.Now())
				return podworkers.SyncResult{}, nil
			},
		}, podworkers.Options{Rand: func() float64 { return 0.5 }})
		stop := run(t, w)
		w.UpdatePod(create(newPod("a")))
		pass(80 * time.Second)
		stop()
		if len(at) != 2 || at[1].Sub(at[0]) != 75*time.Second {
			t.Errorf("calls at %v", at)
		}
	})
}
