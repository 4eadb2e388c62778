package enginetest_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime/fake"
)

// TestDeletionLeavesThePreStopHookItsTime: runtime.md 15.3, 16.10. A pod is deleted 3 s after a
// failed liveness probe began to kill its container. The preStop hook runs again, for as long as it
// takes, and the container is signalled after that. Explain says what is going on.
func TestDeletionLeavesThePreStopHookItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hooks atomic.Int32
		rt := fake.New(fake.Options{Script: func(fake.Launch) fake.Script {
			return fake.Script{OnTERM: fake.Exit{After: 4 * time.Second}, Exec: func(e fake.Exec) fake.ExecResult {
				if e.Cmd[0] == "alive" {
					return fake.ExecResult{Code: 1}
				}
				hooks.Add(1)
				return fake.ExecResult{Took: 10 * time.Second}
			}}
		}})
		r := newRig(t, rt, t.TempDir()).start()
		pod := newPod("web")
		pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
		c := &pod.Spec.Containers[0]
		c.LivenessProbe = &v1.Probe{
			ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"alive"}}}, PeriodSeconds: 1, FailureThreshold: 1,
		}
		c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"bye"}}}}
		r.set(pod)
		r.within(time.Minute, "the hook", func() error {
			if hooks.Load() == 0 {
				return errors.New("it does not run")
			}
			return nil
		})
		wantDoing := func(want string) {
			t.Helper()
			synctest.Wait()
			if e, _ := r.engine.Explain(pod.UID); e.Worker == nil || !strings.HasSuffix(e.Worker.WaitingFor, want) {
				t.Errorf("Explain: %+v, want %s", e.Worker, want)
			}
		}
		<-time.After(3 * time.Second)
		wantDoing("SyncPod to return: stopping container main, 3 s of 30 s grace, its preStop hook runs")
		deleted := time.Now()
		pod = pod.DeepCopy()
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(deleted)), ptr.To[int64](30)
		r.apply(pod)
		<-time.After(5 * time.Second)
		wantDoing("SyncTerminatingPod to return: stopping container main, 5 s of 30 s grace, its preStop hook runs")
		<-time.After(7 * time.Second)
		wantDoing("SyncTerminatingPod to return: stopping container main, 12 s of 30 s grace")
		<-time.After(10 * time.Second)
		stops := rt.Calls(fake.Match{Method: fake.StopContainer, PodUID: pod.UID})
		if len(stops) != 1 || hooks.Load() != 2 {
			t.Fatalf("%d stops, %d hooks", len(stops), hooks.Load())
		}
		if at := stops[0].Start.Sub(deleted).Round(time.Second); at != 10*time.Second {
			t.Errorf("15.3: signalled %v after the deletion, want 10s", at)
		}
		if grace := stops[0].Request.(*runtimeapi.StopContainerRequest).GetTimeout(); grace != 20 {
			t.Errorf("15.3: with %d s of grace, want 20", grace)
		}
	})
}
