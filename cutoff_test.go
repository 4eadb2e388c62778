package podwright_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime/fake"
)

// TestStartCutOff: HI8, status.md 3.7: a runtime that gives up the starts of an agent that
// is killed costs no pod anything: none that runs once fails, no restart is counted, and
// nobody waits for a back-off. A container that the runtime then cannot remove is in
// nobody's way.
func TestStartCutOff(t *testing.T) {
	for _, stuck := range []bool{false, true} {
		t.Run(fmt.Sprintf("stuck=%t", stuck), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newHost(t, fake.New(fake.Options{Script: func(l fake.Launch) fake.Script {
					if l.Number <= 4 {
						return fake.Script{StartErr: errors.New("failed to create containerd task: failed to create shim task: context canceled: unknown")}
					}
					return fake.Script{Exit: &fake.Exit{After: time.Minute}}
				}}))
				if stuck {
					n.rt.Inject(fake.Fault{
						Match: fake.Match{Method: fake.RemoveContainer}, Effect: fake.Effect{Err: errors.New("cannot delete running task")},
					})
				}
				pods := func() []*v1.Pod {
					return []*v1.Pod{newPod("web"), withPolicy(newPod("once"), v1.RestartPolicyNever)}
				}
				for i := range 4 {
					r := n.agent()
					r.set(pods()...)
					r.within(time.Minute, "a start to be cut off", func() error {
						if n.rt.Facts("uid-once", "main").Created <= i {
							return errors.New("not yet")
						}
						return nil
					})
					n.kill(r)
				}
				began := time.Now()
				r := n.agent()
				r.set(pods()...)
				r.phase("uid-web", v1.PodRunning, time.Minute)
				r.phase("uid-once", v1.PodRunning, time.Minute)
				if took := time.Since(began); took > 15*time.Second {
					t.Errorf("the pods ran after %s", took)
				}
				for _, p := range []types.UID{"uid-web", "uid-once"} {
					if c := r.pod(p).Status.ContainerStatuses[0]; !stuck && c.RestartCount != 0 || c.LastTerminationState.Terminated != nil {
						t.Errorf("%s: %+v", p, c)
					}
				}
				r.phase("uid-once", v1.PodSucceeded, 2*time.Minute)
				if got := starts(n.rt, "uid-once"); got != 5 {
					t.Errorf("%d starts, want 4 that were cut off and one", got)
				}
			})
		})
	}
}
