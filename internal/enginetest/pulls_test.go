package enginetest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
)

// TestPodsShareOnePull: users see what a pod waits for, two pods share one pull, and a deleted pod leaves the
// pull to the other. The deletion of the last one ends the pull, and nothing is created (spec/runtime.md 9.4).
func TestPodsShareOnePull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		rt.Inject(fake.Fault{Match: fake.Match{Method: fake.PullImage}, Effect: fake.Effect{Hang: true}})
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.Pods.MaxParallelImagePulls = 1 }).start()
		a, b, c := newPod("a"), newPod("b"), newPod("c")
		c.Spec.Containers[0].Image = "example.com/other:1"
		synctest.Wait()
		stream, _ := rt.InFlight() // the stream of events
		r.set(a, b)
		pulls := func(want string) func() error {
			return func() error {
				var got []string
				for _, pod := range []*v1.Pod{a, b, c} {
					e, _ := r.engine.Explain(pod.UID)
					for _, c := range e.Containers {
						if p := c.Pull; p != nil {
							got = append(got, fmt.Sprintf("%s %s x%d queued=%v", e.Name, p.Image, p.Waiters, p.Queued))
						}
					}
				}
				if text := strings.Join(got, ", "); text != want {
					return fmt.Errorf("%s; want %s", text, want)
				}
				return nil
			}
		}
		image := a.Spec.Containers[0].Image
		r.within(time.Second, "both to wait", pulls(fmt.Sprintf("a %s x2 queued=false, b %[1]s x2 queued=false", image)))
		if n := rt.CallCount(fake.PullImage); n != 1 {
			t.Errorf("9.4: %d pulls for two pods", n)
		}
		waiting := r.pod(a.UID).Status.ContainerStatuses[0].State.Waiting
		if waiting == nil || waiting.Reason != "ContainerCreating" || !strings.HasPrefix(waiting.Message, fmt.Sprintf("Pulling image %q since ", image)) {
			t.Errorf("waiting %+v", waiting)
		}
		r.set(a, b, c)
		r.within(time.Second, "the third to queue", pulls(fmt.Sprintf(
			"a %s x2 queued=false, b %[1]s x2 queued=false, c example.com/other:1 x1 queued=true", image)))
		r.set(b)
		gone := r.within(time.Second, "the others to be gone", func() error {
			if r.pod(a.UID) != nil || r.pod(c.UID) != nil {
				return errors.New(r.explain(a.UID))
			}
			return nil
		})
		t.Logf("gone after %v", gone)
		r.within(time.Second, "one to wait", pulls(fmt.Sprintf("b %s x1 queued=false", image)))
		if now, _ := rt.InFlight(); now != stream+1 {
			t.Errorf("%d calls in flight", now)
		}
		r.set()
		r.empty(time.Second)
		if now, _ := rt.InFlight(); now != stream {
			t.Errorf("%d calls in flight at the end", now)
		}
		if n := rt.CallCount(fake.CreateContainer) + rt.CallCount(fake.StartContainer); n != 0 {
			t.Errorf("%d containers created or started", n)
		}
	})
}
