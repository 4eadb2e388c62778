package podworkers_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// settable is a clock whose wall time can be set, or jumps because the machine was suspended, while times since New stay
// monotonic.
type settable struct {
	clock.RealClock
	offset atomic.Int64
}

func (c *settable) set(by time.Duration) { c.offset.Store(int64(by)) }
func (c *settable) Now() time.Time       { return time.Now().Round(0).Add(time.Duration(c.offset.Load())) }

func (c *settable) Since(epoch time.Time) time.Duration { return time.Now().Round(0).Sub(epoch) }

// missingError is the error of a pod that waits for an object.
type missingError struct{ error }

func (missingError) RetryWithin() time.Duration { return 15 * time.Second }

// TestShownTimesFollowTheWallClock: L11. Once the clock was set, or the machine suspended, what the workers show is as old
// as it is, by the clock as it is then.
func TestShownTimesFollowTheWallClock(t *testing.T) {
	const day = 24 * time.Hour
	for name, by := range map[string]time.Duration{"set forward": 56 * 365 * day, "set back": -day} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, until := &settable{}, make(chan struct{})
				w := podworkers.New(podworkers.PodSyncerFuncs{
					Sync: func(_ context.Context, _ podworkers.UpdateType, pod, _ *v1.Pod, _ *runtime.PodStatus) (podworkers.SyncResult, error) {
						if pod.UID == "lacks" {
							return podworkers.SyncResult{}, missingError{errors.New("no such config map")}
						}
						return podworkers.SyncResult{}, nil
					},
					Terminating: func(context.Context, *v1.Pod, *runtime.PodStatus, *int64, podworkers.PodStatusFunc) error {
						<-until
						return nil
					},
				}, podworkers.Options{Clock: c, Rand: func() float64 { return 0 }})
				run(t, w)
				defer close(until)
				_, release, _ := w.Hold(t.Context(), "held", "remove logs")
				defer release()
				for _, pod := range []*v1.Pod{newPod("well"), newPod("held"), newPod("lacks")} {
					w.UpdatePod(create(pod))
				}
				w.UpdatePod(kill(newPod("hangs"), podworkers.KillOptions{}))
				pass(5*time.Minute + time.Second)
				c.set(by)
				pass(10 * time.Second)
				const age = 5*time.Minute + 11*time.Second
				e, _ := w.Explain("well")
				if got := c.Now().Sub(e.Since); got != age {
					t.Errorf("explained as in its state for %v", got)
				}
				if got := c.Now().Sub(e.Transitions[0].At); got != age {
					t.Errorf("explained as heard of %v ago", got)
				}
				if left := e.NextWakeUp.Sub(c.Now()); left != 49*time.Second {
					t.Errorf("explained as due in %v", left)
				}
				e, _ = w.Explain("held")
				if want := "since " + c.Now().Add(-age).Format(time.RFC3339); !strings.HasSuffix(e.WaitingFor, want) {
					t.Errorf("waits for %q, want %q", e.WaitingFor, want)
				}
				found := w.Problems()
				if len(found) != 3 {
					t.Errorf("problems: %v", found)
				}
				for _, p := range found {
					if got := c.Now().Sub(p.Since); got != age {
						t.Errorf("pod %s is listed as waiting for %v", p.UID, got)
					}
				}
			})
		})
	}
}
