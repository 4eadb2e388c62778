package enginetest_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
)

// killNine ends the agent as kill -9 does: what it had not written by now is lost.
func killNine(r *rig) {
	r.t.Helper()
	kept := r.t.TempDir()
	restore := func(to, from string) {
		if err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(from))); err != nil {
			r.t.Fatal(err)
		}
	}
	restore(kept, r.root)
	r.stop()
	restore(r.root, kept)
}

// mute is a runtime that does not say what containers were given, as older ones.
type mute struct{ *fake.Runtime }

func (m mute) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	s, err := m.Runtime.ContainerStatus(ctx, id, verbose)
	if s.GetStatus() != nil {
		s.Status.Resources = nil
	}
	return s, err
}

// TestKillAfterTheFirstStart: spec/runtime.md 21.1, 21.2. What was allocated and given is a running pod's own, even if the agent is
// killed before it has written that it started the pod: no container is given its resources again, nor restarted for that.
func TestKillAfterTheFirstStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(nil)
		quiet := func(c *podwright.Config) { c.Runtime = mute{rt} }
		r := newRig(t, rt, t.TempDir(), roomFor("4"), quiet).start()
		p := sized(newPod("web"), "2", "64Mi")
		p.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceCPU, RestartPolicy: v1.RestartContainer}}
		r.set(p)
		r.phase(p.UID, v1.PodRunning, time.Second)
		killNine(r)
		r = newRig(t, rt, r.root, roomFor("4"), quiet).start()
		r.set(p)
		<-time.After(time.Minute)
		r.phase(p.UID, v1.PodRunning, time.Second)
		if n := len(rt.Calls(fake.Match{Method: fake.StartContainer})); n != 1 {
			t.Errorf("%d containers were started", n)
		}
		if n := len(rt.Calls(fake.Match{Method: fake.UpdateContainerResources})); n != 0 {
			t.Errorf("the container was given its resources again, %d times", n)
		}
	})
}

// TestGrantBeforeTheFirstStart: spec/runtime.md 21.1. What a pod was granted stays its own in the next agent, even if none of its
// containers has started yet.
func TestGrantBeforeTheFirstStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing := errors.New("no such image")
		rt := fake.New(fake.Options{Registry: func(string, *runtimeapi.AuthConfig) fake.Pull { return fake.Pull{Err: failing} }})
		r := newRig(t, rt, t.TempDir(), roomFor("4")).start()
		a, b := newPod("a"), sized(newPod("b"), "2", "64Mi")
		r.set(sized(a, "1", "64Mi"))
		<-time.After(time.Second)
		r.set(sized(a, "3", "64Mi"))
		<-time.After(10 * time.Minute)
		r.stop()
		failing = nil
		r = newRig(t, rt, r.root, roomFor("4")).start()
		r.set(sized(a, "3", "64Mi"), b)
		<-time.After(time.Minute)
		if n := given(r, a); n != 3 || r.pod(b.UID).Status.Reason != "OutOfcpu" {
			t.Errorf("a has %d CPUs, b: %q", n, r.pod(b.UID).Status.Reason)
		}
	})
}
