package podworkers_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// steps counts calls, and fails the setup of pods whose name says so.
type steps struct {
	podworkers.PodSyncerFuncs
	setups, cut int
	grace       *int64
}

func (s *steps) SyncPod(ctx context.Context, _ podworkers.UpdateType, pod, _ *v1.Pod, _ *runtime.PodStatus) (podworkers.SyncResult, error) {
	if s.setups++; s.setups > 50 {
		<-time.After(time.Minute) // calls without a pause would let no time pass
	}
	select {
	case <-ctx.Done():
		s.cut++
	case <-time.After(time.Second):
	}
	if pod.Name == "fails" {
		return podworkers.SyncResult{}, errors.New("no")
	}
	return podworkers.SyncResult{}, nil
}

func (s *steps) SyncTerminatingPod(_ context.Context, _ *v1.Pod, _ *runtime.PodStatus, grace *int64, _ podworkers.PodStatusFunc) error {
	s.grace = grace
	return nil
}

// TestFarAwayDurations: the longest duration means a time that does not come. With jitter, or added
// to the time that it is now, it must not become a time in the past.
func TestFarAwayDurations(t *testing.T) {
	const never = time.Duration(math.MaxInt64)
	for name, want := range map[string]int{"works": 1, "fails": 1} {
		synctest.Test(t, func(t *testing.T) {
			s := &steps{}
			back := podworkers.BackOff{Initial: never, Max: never}
			w := podworkers.New(s, podworkers.Options{
				SyncFrequency: never, SetupBackOff: back, TerminatingBackOff: back, StuckAfter: never, DrainTimeout: never,
				SetupDeadline: never, TerminatingDeadline: never, TerminatedDeadline: never, TerminateGrace: never,
				Rand: func() float64 { return 0.999 },
			})
			ended := make(chan error, 1)
			go func() { ended <- w.Run(t.Context()) }()
			pod := newPod("1")
			pod.Name, pod.Spec.TerminationGracePeriodSeconds = name, new(int64(30))
			w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Create, Pod: pod})
			for range 600 { // in small steps, since a busy program lets no time pass
				<-time.After(time.Second)
				if synctest.Wait(); s.setups > 10 {
					t.Fatalf("%s: %d calls", name, s.setups)
				}
			}
			if s.setups != want || s.cut > 0 {
				t.Errorf("%s: %d calls in 10 min, %d of them cut off, want %d", name, s.setups, s.cut, want)
			}
			if err := w.Stop(t.Context(), podworkers.Terminate); err != nil || s.grace == nil || *s.grace != 30 {
				t.Errorf("%s: stopped with %v, grace %v, want 30 s", name, err, s.grace)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
