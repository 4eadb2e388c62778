package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
)

const cutOff = "failed to create containerd task: failed to create shim task: context canceled: unknown"

// TestInterruptedStartCostsNothing: HI8, status.md 3.7: a runtime aborts the starts of an agent
// that is killed. This has no cost for any pod: no pod that runs once fails, no restart is counted,
// and no pod waits for a back-off. A container that the runtime then cannot remove does not block
// any pod.
func TestInterruptedStartCostsNothing(t *testing.T) {
	t.Parallel()
	for _, stuck := range []bool{false, true} {
		t.Run(fmt.Sprintf("stuck=%t", stuck), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newHost(t, fake.New(fake.Options{Script: func(l fake.Launch) fake.Script {
					if l.Number <= 4 {
						return fake.Script{StartErr: errors.New(cutOff)}
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

// withInit returns the pod with the init containers a and b.
func withInit(p *v1.Pod) *v1.Pod {
	p.Spec.InitContainers = []v1.Container{{Name: "a", Image: "app:1"}, {Name: "b", Image: "app:1"}}
	return p
}

// order returns the containers that were started after a call number, in order.
func order(rt *fake.Runtime, since int) (names []string) {
	for _, c := range rt.Calls(fake.Match{Method: fake.StartContainer}) {
		if c.Seq > since {
			names = append(names, c.Container)
		}
	}
	return names
}

func lastCall(rt *fake.Runtime) int {
	calls := rt.Calls(fake.Match{})
	return calls[len(calls)-1].Seq
}

// TestNewSandboxRunsInitAgain: runtime.md 6.2, 6.4, HI8: in a new sandbox all init containers run
// again, before the others, although the engine knows their ends, and although the start of a
// container in the old sandbox was cut off.
func TestNewSandboxRunsInitAgain(t *testing.T) {
	for _, cut := range []bool{false, true} {
		t.Run(fmt.Sprintf("cut=%t", cut), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var over atomic.Bool
				n := newHost(t, fake.New(fake.Options{Script: func(l fake.Launch) fake.Script {
					switch {
					case l.Container != "main":
						return fake.Script{Exit: &fake.Exit{After: 5 * time.Second}}
					case cut && !over.Load():
						return fake.Script{StartErr: errors.New(cutOff)}
					}
					return fake.Script{}
				}}))
				pod := func() *v1.Pod { return withInit(withPolicy(newPod("web"), v1.RestartPolicyOnFailure)) }
				r := n.agent()
				r.set(pod())
				r.within(time.Minute, "main to be started", func() error {
					if len(order(n.rt, 0)) < 3 {
						return errors.New("not yet")
					}
					return nil
				})
				n.kill(r)
				over.Store(true)
				since := lastCall(n.rt)
				n.rt.Reboot()
				r = n.agent()
				r.set(pod())
				<-time.After(2 * time.Second)
				again := pod()
				again.Labels = map[string]string{"changed": "yes"}
				r.set(again)
				r.within(time.Minute, "main to run", func() error {
					if n.rt.Facts("uid-web", "main").Running == 0 {
						return errors.New("not yet")
					}
					return nil
				})
				if got := fmt.Sprint(order(n.rt, since)); got != "[a b main]" {
					t.Errorf("started %s", got)
				}
			})
		})
	}
}

// TestInterruptedEphemeralStarts: HI8: an ephemeral container whose start was cut off is started.
func TestInterruptedEphemeralStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var over atomic.Bool
		n := newHost(t, fake.New(fake.Options{Script: func(l fake.Launch) fake.Script {
			if l.Container == "debug" && !over.Load() {
				return fake.Script{StartErr: errors.New(cutOff)}
			}
			return fake.Script{}
		}}))
		pod := func() *v1.Pod {
			p := newPod("web")
			p.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug", Image: "app:1"}}}
			return p
		}
		r := n.agent()
		r.set(pod())
		r.within(time.Minute, "its start to be cut off", func() error {
			if len(order(n.rt, 0)) < 2 {
				return errors.New("not yet")
			}
			return nil
		})
		n.kill(r)
		over.Store(true)
		r = n.agent()
		r.set(pod())
		<-time.After(time.Minute)
		if c := r.pod("uid-web").Status.EphemeralContainerStatuses; len(c) != 1 || c[0].State.Running == nil || c[0].RestartCount != 0 {
			t.Errorf("%+v", c)
		}
	})
}

// TestInterruptedStartIsNeverTold: status.md 9.1: an interrupted start is not reported, even when a
// pod with a container that cannot be removed stops.
func TestInterruptedStartIsNeverTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var over atomic.Bool
		n := newHost(t, fake.New(fake.Options{Script: func(fake.Launch) fake.Script {
			if !over.Load() {
				return fake.Script{StartErr: errors.New(cutOff)}
			}
			return fake.Script{}
		}}))
		n.rt.Inject(fake.Fault{Match: fake.Match{Method: fake.RemoveContainer}, Effect: fake.Effect{Err: errors.New("cannot delete running task")}})
		sink := sinks(status.SinkFunc(func(_ context.Context, u status.Update) (status.StoreResult, error) {
			for _, c := range u.Status.ContainerStatuses {
				for _, s := range []v1.ContainerState{c.State, c.LastTerminationState} {
					if over.Load() && s.Terminated != nil && s.Terminated.Reason == "StartError" {
						t.Errorf("told of %+v", s.Terminated)
					}
				}
			}
			return status.Stored, nil
		}))
		r := n.agent(sink)
		r.set(newPod("web"))
		r.within(time.Minute, "its start to be cut off", func() error {
			if len(order(n.rt, 0)) == 0 {
				return errors.New("not yet")
			}
			return nil
		})
		n.kill(r)
		over.Store(true)
		r = n.agent(sink)
		r.set(newPod("web"))
		r.phase("uid-web", v1.PodRunning, time.Minute)
		r.set()
		<-time.After(time.Minute)
	})
}
