package enginetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime/fake"
)

func withDeadline(p *v1.Pod, seconds int64) *v1.Pod {
	p.Spec.ActiveDeadlineSeconds = ptr.To(seconds)
	return p
}

// TestPodFailsAtItsDeadline: W1-W5, edge case 27. The pod fails exactly when its deadline passes,
// once, with one event, even if the agent restarts meanwhile or is down at that time. A pod that
// finished before is left alone.
func TestPodFailsAtItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(map[string]fake.Script{"job": {Exit: &fake.Exit{After: time.Second}}})
		root := t.TempDir()
		pods := []*v1.Pod{
			withDeadline(newPod("soon"), 30), withDeadline(newPod("later"), 3600), withDeadline(newPod("down"), 600), newPod("free"),
			withPolicy(withDeadline(newPod("done", "job"), 30), v1.RestartPolicyNever),
		}
		r := newRig(t, rt, root).start()
		r.set(pods...)
		r.phase("uid-soon", v1.PodRunning, 10*time.Second)
		begin := r.pod("uid-soon").Status.StartTime.Time
		<-time.After(time.Until(begin.Add(29500 * time.Millisecond)))
		r.phase("uid-soon", v1.PodFailed, 40*time.Second)
		// At this point the test polls every 10 ms; start times are whole seconds.
		if took := time.Since(begin); took < 30*time.Second || took > 30*time.Second+20*time.Millisecond {
			t.Errorf("failed %v after its start, want 30 s", took)
		}
		s := r.pod("uid-soon").Status
		if s.Reason != "DeadlineExceeded" || s.Message != "Pod was active on the node longer than the specified deadline" {
			t.Errorf("reason %q, message %q", s.Reason, s.Message)
		}
		<-time.After(5 * time.Minute)
		if n := r.events.count("soon DeadlineExceeded"); n != 1 {
			t.Errorf("%d events, want 1", n)
		}
		if s := r.pod("uid-done").Status; s.Phase != v1.PodSucceeded {
			t.Errorf("done: %s %s %+v", s.Phase, s.Reason, s.ContainerStatuses)
		}
		if len(rt.Calls(fake.Match{Method: fake.StopContainer, PodUID: "uid-soon"})) == 0 {
			t.Error("its container was not stopped")
		}
		r.stop()

		<-time.After(20 * time.Minute) // the deadline of "down" passes meanwhile
		again := newRig(t, rt, root).start()
		again.set(pods...)
		again.phase("uid-down", v1.PodFailed, 10*time.Second)
		<-time.After(time.Until(begin.Add(time.Hour - time.Second)))
		again.phase("uid-later", v1.PodFailed, 5*time.Second)
		if took := time.Since(begin); took < time.Hour || took > time.Hour+2*time.Second {
			t.Errorf("later failed %v after its start, want 1 h", took)
		}
		if again.pod("uid-free").Status.Phase != v1.PodRunning {
			t.Error("a pod without a deadline has ended")
		}
		if n := again.events.count("soon DeadlineExceeded"); n != 0 {
			t.Errorf("told again after the restart: %d", n)
		}
	})
}

// TestMovedDeadlineCounts: W1, W2. A pod whose deadline is moved fails when the new deadline passes.
func TestMovedDeadlineCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, fake.New(fake.Options{}), t.TempDir()).start()
		r.set(withDeadline(newPod("web"), 10))
		r.phase("uid-web", v1.PodRunning, 5*time.Second)
		begin := r.pod("uid-web").Status.StartTime.Time
		r.set(withDeadline(newPod("web"), 60))
		<-time.After(40 * time.Second)
		if p := r.pod("uid-web").Status.Phase; p != v1.PodRunning {
			t.Fatalf("phase %s: the earlier time still counts", p)
		}
		<-time.After(time.Until(begin.Add(59500 * time.Millisecond)))
		r.phase("uid-web", v1.PodFailed, 30*time.Second)
		if took := time.Since(begin); took < 60*time.Second || took > 60*time.Second+20*time.Millisecond {
			t.Errorf("failed after %v, want 60 s", took)
		}
	})
}
