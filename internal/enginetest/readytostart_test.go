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

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
)

// TestReadyToStartBeforeItsImages: spec/status.md 5.4, spec/runtime.md 7. A pod is shown with a sandbox as soon as it has one,
// while its image is pulled, to the next agent too; and without one from the loss of its sandbox until there is another one.
func TestReadyToStartBeforeItsImages(t *testing.T) {
	const sandbox, pull = 20 * time.Second, 10 * time.Minute
	for _, host := range []bool{false, true} {
		t.Run(fmt.Sprintf("host network %t", host), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt, root := fake.New(fake.Options{}), t.TempDir()
				rt.Inject(
					fake.Fault{Match: fake.Match{Method: fake.RunPodSandbox}, Effect: fake.Effect{Delay: sandbox}},
					fake.Fault{Match: fake.Match{Method: fake.PullImage}, Effect: fake.Effect{Delay: pull}},
				)
				r := newRig(t, rt, root).start()
				p := newPod("web")
				p.Spec.HostNetwork = host
				begin := time.Now()
				r.set(p)
				shown := func(what string, want v1.ConditionStatus, since time.Duration) {
					t.Helper()
					for _, c := range r.pod(p.UID).Status.Conditions {
						if c.Type != v1.PodReadyToStartContainers {
							continue
						}
						if at := c.LastTransitionTime.Sub(begin); c.Status != want || at < since-time.Second || at > since+time.Second {
							t.Errorf("%s: %s since %v, want %s since %v", what, c.Status, at, want, since)
						}
						return
					}
					t.Errorf("%s: no condition", what)
				}
				<-time.After(sandbox / 2)
				shown("a sandbox is being made", v1.ConditionFalse, 0)
				<-time.After(sandbox)
				shown("the image is being pulled", v1.ConditionTrue, sandbox)
				if n := rt.CallCount(fake.CreateContainer); n != 0 {
					t.Errorf("%d containers", n)
				}
				r.stop()
				r = newRig(t, rt, root).start()
				r.set(p)
				<-time.After(time.Minute)
				shown("the next agent pulls", v1.ConditionTrue, sandbox)
				r.phase(p.UID, v1.PodRunning, pull)
				shown("it runs", v1.ConditionTrue, sandbox)

				boxes, err := rt.ListPodSandbox(t.Context(), nil)
				if err != nil || len(boxes) != 1 {
					t.Fatal(boxes, err)
				}
				begin = time.Now()
				if err := rt.FailSandbox(boxes[0].Id); err != nil {
					t.Fatal(err)
				}
				<-time.After(sandbox / 2)
				shown("it has lost its sandbox", v1.ConditionFalse, 0)
				<-time.After(sandbox)
				at := time.Since(begin)
				shown("it has another one", v1.ConditionTrue, at-sandbox/2)
			})
		})
	}
}

// TestUnusableSandboxIsNotShown: spec/status.md 5.4, spec/runtime.md 5. A sandbox that lacks its address, and is replaced for
// that, does not make the condition go back and forth.
func TestUnusableSandboxIsNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		rt.Inject(fake.Fault{Match: fake.Match{Method: fake.PodSandboxStatus}, Effect: fake.Effect{Delay: time.Second}})
		var told atomic.Int32
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) {
			c.Pods.SandboxReady = func(context.Context, types.UID, []string) { told.Add(1) }
		}).start()
		p := newPod("web")
		r.set(p)
		r.within(time.Minute, "a sandbox", func() error { return rt.SetIPs("sandbox-1") })
		r.within(time.Minute, "a usable sandbox", func() error {
			if told.Load() == 0 {
				return errors.New("not told")
			}
			return nil
		})
		r.phase(p.UID, v1.PodRunning, time.Minute)
		if n := rt.CallCount(fake.RunPodSandbox); n != 2 || told.Load() != 1 {
			t.Errorf("told of %d sandboxes of %d", told.Load(), n)
		}
	})
}
