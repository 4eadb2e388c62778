package enginetest_test

import (
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
)

// byContainer makes a fake whose containers follow scripts by container name.
func byContainer(scripts map[string]fake.Script) *fake.Runtime {
	return fake.New(fake.Options{Script: func(l fake.Launch) fake.Script { return scripts[l.Container] }})
}

// TestEachKindOfPodLives takes one pod of each kind through its life.
func TestEachKindOfPodLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(map[string]fake.Script{
			"job":    {Exit: &fake.Exit{After: 2 * time.Second}},
			"fail":   {Exit: &fake.Exit{After: time.Second, Code: 3}},
			"crash":  {Exit: &fake.Exit{After: time.Second, Code: 1}},
			"flaky":  {Crashes: 2, Crash: fake.Exit{After: time.Second}},
			"server": {},
		})
		r := newRig(t, rt, t.TempDir()).start()
		once := func(name, container string) *v1.Pod {
			p := newPod(name, container)
			p.Spec.RestartPolicy = v1.RestartPolicyNever
			return p
		}
		r.set(newPod("server", "server"), once("job", "job"), once("fail", "fail"), newPod("crash", "crash"), newPod("flaky", "flaky"))

		if took := r.phase("uid-server", v1.PodRunning, 10*time.Second); took > 500*time.Millisecond {
			t.Errorf("Running after %v on an instant runtime", took)
		}
		r.phase("uid-job", v1.PodSucceeded, 10*time.Second)
		r.phase("uid-fail", v1.PodFailed, 10*time.Second)
		for _, p := range r.engine.Pods() {
			if p.DeletionTimestamp != nil {
				t.Errorf("%s is desired and shown as being deleted", p.Name)
			}
		}
		if end := r.pod("uid-fail").Status.ContainerStatuses[0].State.Terminated; end == nil || end.ExitCode != 3 {
			t.Errorf("fail: %+v, want exit code 3", r.pod("uid-fail").Status.ContainerStatuses[0].State)
		}
		r.within(time.Minute, "CrashLoopBackOff", func() error {
			c := r.pod("uid-crash").Status.ContainerStatuses[0]
			if c.State.Waiting == nil || c.State.Waiting.Reason != "CrashLoopBackOff" || c.RestartCount < 1 {
				return fmt.Errorf("%+v", c)
			}
			return nil
		})
		r.within(time.Minute, "flaky running after two restarts", func() error {
			c := r.pod("uid-flaky").Status.ContainerStatuses[0]
			if c.State.Running == nil || c.RestartCount != 2 {
				return fmt.Errorf("%+v", c)
			}
			return nil
		})
		// Running may replace Pending before Pending is sent. No other phase may be missing or come
		// twice.
		phases, _ := r.sink.of("uid-job")
		if len(phases) == 3 && phases[0] == v1.PodPending {
			phases = phases[1:]
		}
		if !reflect.DeepEqual(phases, []v1.PodPhase{v1.PodRunning, v1.PodSucceeded}) {
			t.Errorf("job went through %v", phases)
		}
		if err := rt.Doubled(); err != nil {
			t.Error(err)
		}
	})
}

// TestCrashLoopRestartsAtExactTimes: restarts follow 0, 10, 20, 40, 80 s (spec/runtime.md 17.5),
// and the pod waits for the exact moment, not for a poll.
func TestCrashLoopRestartsAtExactTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(map[string]fake.Script{"main": {Exit: &fake.Exit{After: time.Second, Code: 1}}})
		r := newRig(t, rt, t.TempDir()).start()
		r.set(newPod("crash"))
		<-time.After(5 * time.Minute)
		synctest.Wait()
		starts := rt.Calls(fake.Match{Method: fake.StartContainer})
		want := []time.Duration{0, 10, 20, 40, 80}
		for i, pause := range want {
			if len(starts) <= i+1 {
				t.Fatalf("only %d starts in 5 min", len(starts))
			}
			exited := starts[i].Start.Add(time.Second)
			late := starts[i+1].Start.Sub(exited) - pause*time.Second
			// A relist may take a second to notice the exit; the back-off itself
			// ends at its exact moment.
			if late < 0 || late > 1100*time.Millisecond {
				t.Errorf("restart %d came %v after the exit, want %v", i+1, starts[i+1].Start.Sub(exited), pause*time.Second)
			}
		}
	})
}

// TestDeletedPodStopsAtOnce: SIGTERM is sent at once, and nothing is left as soon as the container
// has stopped.
func TestDeletedPodStopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(map[string]fake.Script{"main": {OnTERM: fake.Exit{After: 3 * time.Second}}})
		r := newRig(t, rt, t.TempDir()).start()
		r.set(newPod("web"))
		r.phase("uid-web", v1.PodRunning, 10*time.Second)
		deleted := time.Now()
		r.set()
		took := r.empty(30 * time.Second)
		stops := rt.Calls(fake.Match{Method: fake.StopContainer})
		if len(stops) == 0 || stops[0].Start.Sub(deleted) > 100*time.Millisecond {
			t.Errorf("StopContainer calls %+v, want one within 100 ms of %v", stops, deleted)
		}
		if took > 5*time.Second {
			t.Errorf("runtime empty %v after the deletion; the container took 3 s", took)
		}
		r.within(5*time.Second, "the engine to forget the pod", func() error {
			if p := r.pod("uid-web"); p != nil {
				return fmt.Errorf("still there: %v", p.Status.Phase)
			}
			if e, ok := r.engine.Explain("uid-web"); ok {
				return fmt.Errorf("still explained: %+v", e.Worker)
			}
			return nil
		})
	})
}

// TestExitIsReadBeforeRemoval: no container record leaves the runtime before the engine has read
// how it ended (spec/pleg.md B12), even if the only reading that showed the end failed.
func TestExitIsReadBeforeRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(map[string]fake.Script{"main": {OnTERM: fake.Exit{Code: 7}}})
		r := newRig(t, rt, t.TempDir()).start()
		r.set(newPod("web"))
		r.phase("uid-web", v1.PodRunning, 10*time.Second)
		r.set()
		r.empty(30 * time.Second)
		removed := rt.Calls(fake.Match{Method: fake.RemoveContainer})
		if len(removed) == 0 {
			t.Fatal("no container was removed")
		}
		read := false
		for _, c := range rt.Calls(fake.Match{Method: fake.ContainerStatus}) {
			response, ok := c.Request.(*runtimeapi.ContainerStatusRequest)
			read = read || ok && response.ContainerId == removed[0].ContainerID && c.Seq < removed[0].Seq && c.Start.After(rt.Calls(fake.Match{Method: fake.StopContainer})[0].Start.Add(-1))
		}
		if !read {
			t.Error("the container was removed before its end was read")
		}
	})
}

// TestNewAgentStartsNothingTwice: a new engine on the same runtime starts nothing twice and
// shows no state in between.
func TestNewAgentStartsNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(map[string]fake.Script{
			"job":   {Exit: &fake.Exit{After: time.Second}},
			"crash": {Crashes: 1, Crash: fake.Exit{After: time.Second}},
		})
		root := t.TempDir()
		job := newPod("job", "job")
		job.Spec.RestartPolicy = v1.RestartPolicyNever
		pods := []*v1.Pod{newPod("web"), job, newPod("crash", "crash")}
		first := newRig(t, rt, root).start()
		first.set(pods...)
		first.phase("uid-web", v1.PodRunning, 10*time.Second)
		first.phase("uid-job", v1.PodSucceeded, 10*time.Second)
		first.within(30*time.Second, "one restart", func() error {
			if c := first.pod("uid-crash").Status.ContainerStatuses[0]; c.RestartCount != 1 || c.State.Running == nil {
				return fmt.Errorf("%+v", c)
			}
			return nil
		})
		before := first.pod("uid-web").Status.ContainerStatuses[0].ContainerID
		first.stop()
		created := rt.CallCount(fake.CreateContainer)
		stopped := rt.CallCount(fake.StopContainer)

		second := newRig(t, rt, root).start()
		second.set(pods...)
		second.phase("uid-web", v1.PodRunning, 10*time.Second)
		second.phase("uid-job", v1.PodSucceeded, 10*time.Second)
		<-time.After(5 * time.Minute)
		synctest.Wait()
		if after := second.pod("uid-web").Status.ContainerStatuses[0].ContainerID; after != before {
			t.Errorf("container %s became %s", before, after)
		}
		if c := second.pod("uid-crash").Status.ContainerStatuses[0]; c.RestartCount != 1 {
			t.Errorf("restart count %d, want 1", c.RestartCount)
		}
		if n := rt.CallCount(fake.CreateContainer) - created; n != 0 {
			t.Errorf("%d containers created by the new engine", n)
		}
		if n := rt.CallCount(fake.StopContainer) - stopped; n != 0 {
			t.Errorf("%d containers stopped by the new engine", n)
		}
		if phases, ready := second.sink.of("uid-web"); !reflect.DeepEqual(phases, []v1.PodPhase{v1.PodRunning}) || !reflect.DeepEqual(ready, []v1.ConditionStatus{v1.ConditionTrue}) {
			t.Errorf("the new engine reported phases %v, ready %v", phases, ready)
		}
	})
}

// TestNewUIDWaitsForOld: a pod with the same name and another UID waits for the old pod, and the
// two never run at once.
func TestNewUIDWaitsForOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(map[string]fake.Script{"main": {OnTERM: fake.Exit{After: 2 * time.Second}}})
		r := newRig(t, rt, t.TempDir()).start()
		r.set(newPod("web"))
		r.phase("uid-web", v1.PodRunning, 10*time.Second)
		next := newPod("web")
		next.UID = "uid-next"
		r.set(next)
		r.phase("uid-next", v1.PodRunning, 30*time.Second)
		if n := rt.Running("uid-web", "main"); n != 0 {
			t.Errorf("%d old containers run", n)
		}
		stop := rt.Calls(fake.Match{Method: fake.StopContainer, PodUID: "uid-web"})
		run := rt.Calls(fake.Match{Method: fake.RunPodSandbox, PodUID: "uid-next"})
		if len(stop) == 0 || len(run) == 0 || run[0].Start.Before(stop[0].End) {
			t.Errorf("the new pod was started at %v, before the old one had stopped", run)
		}
	})
}

// TestFixedUIDRunsAgain: a pod with a fixed UID that is removed and restored during
// its termination runs again (spec/podworkers.md 10.2).
func TestFixedUIDRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(map[string]fake.Script{"main": {OnTERM: fake.Exit{After: 3 * time.Second}}})
		r := newRig(t, rt, t.TempDir()).start()
		r.set(newPod("web"))
		r.phase("uid-web", v1.PodRunning, 10*time.Second)
		r.set()
		<-time.After(time.Second)
		r.set(newPod("web"))
		r.within(time.Minute, "a second life", func() error {
			if f := rt.Facts("uid-web", "main"); f.Started != 2 || f.Running != 1 {
				return fmt.Errorf("%+v", f)
			}
			return nil
		})
		r.phase("uid-web", v1.PodRunning, 10*time.Second)
		if err := rt.Doubled(); err != nil {
			t.Error(err)
		}
	})
}

// TestOnlyOwnLeftoversAreRemoved: the engine stops and removes what runs undesired, and does not
// touch what belongs to others (spec/runtime.md 1.9, SG1).
func TestOnlyOwnLeftoversAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		root := t.TempDir()
		old := newRig(t, rt, root).start()
		old.set(newPod("gone"), newPod("stays"))
		old.phase("uid-gone", v1.PodRunning, 10*time.Second)
		old.phase("uid-stays", v1.PodRunning, 10*time.Second)
		foreign := newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.Node.OwnerID = "somebody else" }).start()
		foreign.set(newPod("foreign"))
		foreign.phase("uid-foreign", v1.PodRunning, 10*time.Second)
		old.stop()
		foreign.stop()

		r := newRig(t, rt, root).start()
		<-time.After(time.Minute)
		synctest.Wait()
		if n := rt.CallCount(fake.StopContainer) + rt.CallCount(fake.StopPodSandbox); n != 0 {
			t.Fatalf("%d stops before the source was heard", n)
		}
		r.set(newPod("stays"))
		r.within(30*time.Second, "the left-over pod to be removed", func() error {
			sandboxes, err := rt.ListPodSandbox(t.Context(), nil)
			if len(sandboxes) != 2 {
				return fmt.Errorf("%d sandboxes, %v", len(sandboxes), err)
			}
			return nil
		})
		if rt.Running("uid-stays", "main") != 1 || rt.Running("uid-foreign", "main") != 1 {
			t.Error("a pod was harmed that was none of our business")
		}
	})
}

// TestDeletionShortensGrace: edge case 6. A deletionTimestamp from the source shortens the grace period of
// a termination under way (spec/podworkers.md G1).
func TestDeletionShortensGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(map[string]fake.Script{"main": {IgnoreTERM: true}})
		r := newRig(t, rt, t.TempDir()).start()
		p := newPod("deaf")
		p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600)
		r.set(p)
		r.phase(p.UID, v1.PodRunning, 10*time.Second)
		deleted := p.DeepCopy()
		deleted.DeletionTimestamp = ptr.To(metav1.Now())
		deleted.DeletionGracePeriodSeconds = ptr.To[int64](600)
		r.set(deleted)
		<-time.After(5 * time.Second)
		shorter := deleted.DeepCopy()
		shorter.DeletionGracePeriodSeconds = ptr.To[int64](3)
		r.set(shorter)
		r.within(4*time.Second, "SIGKILL after the shorter grace", func() error {
			if n := rt.Running(p.UID, "main"); n != 0 {
				return fmt.Errorf("%d containers run", n)
			}
			return nil
		})
	})
}
