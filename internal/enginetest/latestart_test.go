package enginetest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
)

// TestLateStartIsNoFailedProbe: spec/probe.md 3.3: a container whose start takes longer than its call
// may is first seen as created, then as running. Its probes have not failed by then.
func TestLateStartIsNoFailedProbe(t *testing.T) {
	for _, kind := range []string{"liveness", "startup", "none"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := fake.New(fake.Options{Script: func(fake.Launch) fake.Script {
					return fake.Script{Exec: func(fake.Exec) fake.ExecResult { return fake.ExecResult{} }}
				}})
				rt.Inject(fake.Fault{
					Match: fake.Match{Method: fake.StartContainer}, Times: 1,
					Effect: fake.Effect{Hang: true, Done: true, Late: 500 * time.Millisecond},
				})
				rt.Inject(fake.Fault{Match: fake.Match{Method: fake.PullImage}, Effect: fake.Effect{Delay: 3 * time.Second}})
				r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.Runtime = impatient{rt} }).start()
				p := newPod("web")
				switch kind {
				case "liveness":
					p.Spec.Containers[0].LivenessProbe = check("live")
				case "startup":
					p.Spec.Containers[0].StartupProbe = check("started")
				}
				p.Spec.Containers[0].ImagePullPolicy = v1.PullAlways // so that the second attempt takes time
				r.set(p)
				r.within(5*time.Minute, "main to run", func() error {
					if rt.Facts("uid-web", "main").Running == 0 {
						return errors.New("not yet")
					}
					return nil
				})
				<-time.After(3 * time.Minute)
				synctest.Wait()
				if n := len(rt.Calls(fake.Match{Method: fake.StopContainer})); n != 0 {
					t.Errorf("%d containers were stopped; events %v", n, r.events)
				}
				if c := r.pod(p.UID).Status.ContainerStatuses[0]; c.RestartCount != 0 || c.State == (v1.ContainerState{}) {
					t.Errorf("%+v", c)
				}
			})
		})
	}
}

// impatient waits for a start as long as the CRI's client does.
type impatient struct{ *fake.Runtime }

func (i impatient) StartContainer(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return i.Runtime.StartContainer(ctx, id)
}
