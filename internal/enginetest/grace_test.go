package enginetest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
)

// TestGraceShrinks: a pod whose container ignores SIGTERM is deleted with 600 s
// and 5 s later with 1 s. The stop in flight is interrupted at once, the new one
// gets what is left of the new grace, and all is over 6 s after the deletion
// (runtime.md 16.2, 16.6), also on a runtime that forgets interrupted stops.
func TestGraceShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{
			Script:              func(fake.Launch) fake.Script { return fake.Script{IgnoreTERM: true} },
			AbandonStopOnCancel: true,
		})
		r := newRig(t, rt, t.TempDir()).start()
		pod := newPod("stubborn")
		r.set(pod)
		r.phase(pod.UID, v1.PodRunning, 5*time.Second)
		began := time.Now()
		for _, grace := range []int64{600, 1} {
			pod = pod.DeepCopy()
			pod.DeletionTimestamp = ptr.To(metav1.NewTime(began))
			pod.DeletionGracePeriodSeconds = ptr.To(grace)
			r.apply(pod)
			if grace > 1 {
				<-time.After(5 * time.Second)
			}
		}
		dead := r.within(10*time.Second, "a dead container", func() error {
			if rt.Facts(pod.UID, "main").Running > 0 {
				return errors.New("it runs")
			}
			return nil
		}) + 5*time.Second
		if dead > 6200*time.Millisecond {
			t.Errorf("dead after %v, want 6.2s at most", dead)
		}
		stops := rt.Calls(fake.Match{Method: fake.StopContainer})
		if len(stops) != 2 {
			t.Fatalf("%d stops", len(stops))
		}
		if late := stops[0].End.Sub(began) - 5*time.Second; late > 100*time.Millisecond || runtime.Class(stops[0].Err) != runtime.ErrCanceled {
			t.Errorf("the first stop ended %v after the second deletion: %v", late, stops[0].Err)
		}
		if late := stops[1].Start.Sub(began) - 5*time.Second; late > 100*time.Millisecond {
			t.Errorf("16.6: the second stop came %v after the second deletion", late)
		}
		if got := stops[1].Request.(*runtimeapi.StopContainerRequest).GetTimeout(); got != 1 {
			t.Errorf("16.2: the second stop has a grace of %d s", got)
		}
	})
}
