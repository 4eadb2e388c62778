package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/source"
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
		// Pending may be overtaken by Running before it is sent; nothing else may
		// be missing or come twice.
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

// TestDeletedPodStopsAtOnce: SIGTERM goes out at once, and nothing is left as soon as
// the container has stopped.
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

// TestExitIsReadBeforeRemoval: no container record leaves the runtime before the
// engine has read how it ended (spec/pleg.md B12), even if the one reading that
// showed it failed.
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

// TestNewUIDWaitsForOld: the same name with another UID waits for the old one,
// and two never run at once.
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

// TestOnlyOwnLeftoversAreRemoved: what runs without being desired is stopped and removed, what
// belongs to somebody else is not touched (spec/runtime.md 1.9, SG1).
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

// TestTwentyEnginesShareNothing share one process and one runtime, and nothing else.
func TestTwentyEnginesShareNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		root := t.TempDir()
		var rigs []*rig
		for i := range 20 {
			owner := fmt.Sprintf("engine-%d", i)
			r := newRig(t, rt, filepath.Join(root, owner), func(c *podwright.Config) { c.Node.OwnerID = owner }).start()
			r.set(newPod(owner), newPod(owner+"-b"))
			rigs = append(rigs, r)
		}
		for i, r := range rigs {
			r.phase(types.UID(fmt.Sprintf("uid-engine-%d", i)), v1.PodRunning, 30*time.Second)
			r.phase(types.UID(fmt.Sprintf("uid-engine-%d-b", i)), v1.PodRunning, 30*time.Second)
			if n := len(r.engine.Pods()); n != 2 {
				t.Errorf("engine %d shows %d pods", i, n)
			}
		}
		// One of them gives up its pods; the others do not notice.
		rigs[7].set()
		<-time.After(time.Minute)
		synctest.Wait()
		sandboxes, err := rt.ListPodSandbox(t.Context(), nil)
		if err != nil || len(sandboxes) != 38 {
			t.Errorf("%d sandboxes (%v), want 38", len(sandboxes), err)
		}
	})
}

// TestHungPodDelaysNoOther: a pod whose calls hang delays no other pod, and is named.
func TestHungPodDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		rt.Inject(
			fake.Fault{Match: fake.Match{Method: fake.CreateContainer, Pod: "bad"}, Effect: fake.Effect{Hang: true}},
			fake.Fault{Match: fake.Match{Method: fake.RunPodSandbox, Pod: "worse"}, Effect: fake.Effect{Err: errors.New("no space left on device")}},
		)
		r := newRig(t, rt, t.TempDir()).start()
		pods := []*v1.Pod{newPod("bad"), newPod("worse")}
		for i := range 20 {
			pods = append(pods, newPod(fmt.Sprintf("good-%d", i)))
		}
		r.set(pods...)
		for i := range 20 {
			r.phase(types.UID(fmt.Sprintf("uid-good-%d", i)), v1.PodRunning, 5*time.Second)
		}
		r.within(time.Minute, "Explain to give the reason", func() error {
			e, ok := r.engine.Explain("uid-worse")
			if !ok || e.Worker == nil || !strings.Contains(e.Worker.LastError, "no space left") {
				return fmt.Errorf("%+v", e.Worker)
			}
			return nil
		})
		// Deleting the hung pod interrupts its call.
		r.set(pods[2:]...)
		r.within(5*time.Second, "the bad pods to be gone", func() error {
			if p := r.pod("uid-bad"); p != nil {
				return errors.New(r.explain("uid-bad"))
			}
			return nil
		})
	})
}

// TestEngineStartsWithoutRuntime: edge case 24. An engine starts without its runtime, says so, and goes on when
// it comes; a deletion in between is not lost.
func TestEngineStartsWithoutRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		rt.SetDown(true)
		r := newRig(t, rt, t.TempDir()).start()
		r.set(newPod("web"), newPod("short"))
		<-time.After(time.Minute)
		synctest.Wait()
		if err := r.engine.Healthy(); err == nil || !strings.Contains(err.Error(), "runtime") {
			t.Errorf("Healthy: %v", err)
		}
		select {
		case <-r.engine.Ready():
			t.Error("ready without a runtime")
		default:
		}
		rt.SetDown(false)
		r.phase("uid-web", v1.PodRunning, 30*time.Second)
		<-r.engine.Ready()
		if err := r.engine.Healthy(); err != nil {
			t.Errorf("Healthy: %v", err)
		}
		rt.SetDown(true)
		<-time.After(40 * time.Second)
		r.set(newPod("web"))
		<-time.After(time.Minute)
		rt.SetDown(false)
		r.within(30*time.Second, "the deleted pod to be gone", func() error {
			if n := rt.Running("uid-short", "main"); n != 0 {
				return fmt.Errorf("%d containers run", n)
			}
			return nil
		})
		if f := rt.Facts("uid-web", "main"); f.Started != 1 {
			t.Errorf("web was started %d times", f.Started)
		}
	})
}

// TestOnlyHostNetworkStartsWithoutNetwork: RH3, edge case 25. Pods on the host network start, the others wait
// for the network, are told so, try again every 1 to 1.5 s, and wait no longer.
func TestOnlyHostNetworkStartsWithoutNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, tries := fake.New(fake.Options{}), make(chan time.Time, 1000)
		rt.SetConditions(true, false)
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) {
			c.Admission.Soft = []admission.Handler{admission.HandlerFunc(func(q admission.Request) admission.Verdict {
				if q.Pod.Name == "web" {
					tries <- time.Now()
				}
				return admission.Verdict{}
			})}
		}).start()
		host := newPod("host")
		host.Spec.HostNetwork = true
		r.set(host, newPod("web"))
		r.phase("uid-host", v1.PodRunning, 10*time.Second)
		<-time.After(time.Minute)
		synctest.Wait()
		if p := r.pod("uid-web"); p.Status.Phase != v1.PodPending || rt.CallCount(fake.RunPodSandbox) != 1 {
			t.Errorf("web is %s without a network, %d sandboxes", p.Status.Phase, rt.CallCount(fake.RunPodSandbox))
		}
		if e, _ := r.engine.Explain("uid-web"); e.Worker == nil || !strings.Contains(e.Worker.LastError, "network is not ready") {
			t.Errorf("explained as %+v", e.Worker)
		}
		if said := r.events.said("web NetworkNotReady"); len(said) == 0 || !strings.HasPrefix(said[0], "network is not ready: ") {
			t.Errorf("events %q", said)
		}
		if err := r.engine.Healthy(); err != nil {
			t.Errorf("RH3: a network that is not ready stops the engine: %v", err)
		}
		for last := <-tries; len(tries) > 0; {
			next := <-tries
			if gap := next.Sub(last); gap < time.Second || gap > 1500*time.Millisecond {
				t.Errorf("tried again after %v", gap)
			}
			last = next
		}
		rt.SetConditions(true, true)
		r.phase("uid-web", v1.PodRunning, 8*time.Second)
	})
}

// TestDrainLeavesNothing: every pod is stopped with its grace, nothing is left, Run ends.
func TestDrainLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(map[string]fake.Script{"slow": {OnTERM: fake.Exit{After: 5 * time.Second}}, "deaf": {IgnoreTERM: true}})
		r := newRig(t, rt, t.TempDir())
		if err := r.engine.Drain(t.Context()); !errors.Is(err, podwright.ErrNotRunning) {
			t.Errorf("Drain before Run: %v", err)
		}
		r.start()
		r.set(newPod("slow", "slow"), newPod("deaf", "deaf"), newPod("web"))
		for _, name := range []types.UID{"uid-slow", "uid-deaf", "uid-web"} {
			r.phase(name, v1.PodRunning, 10*time.Second)
		}
		begin := time.Now()
		if err := r.engine.Drain(t.Context()); err != nil {
			t.Errorf("Drain: %v", err)
		}
		if took := time.Since(begin); took < 10*time.Second || took > 13*time.Second {
			t.Errorf("Drain took %v; the deaf container has a grace of 10 s", took)
		}
		<-r.ended
		r.empty(0)
		for _, name := range []types.UID{"uid-slow", "uid-deaf", "uid-web"} {
			phases, _ := r.sink.of(name)
			if last := phases[len(phases)-1]; last != v1.PodFailed && last != v1.PodSucceeded && last != v1.PodRunning {
				t.Errorf("%s ended as %v", name, phases)
			}
		}
	})
}

// TestDrainNeedsNoSource: what runs from before is drained although no source has said a
// word yet.
func TestDrainNeedsNoSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(map[string]fake.Script{"main": {OnTERM: fake.Exit{After: 2 * time.Second}}})
		root := t.TempDir()
		first := newRig(t, rt, root).start()
		first.set(newPod("web"))
		first.phase("uid-web", v1.PodRunning, 10*time.Second)
		first.stop()
		second := newRig(t, rt, root).start()
		synctest.Wait()
		if err := second.engine.Drain(t.Context()); err != nil {
			t.Errorf("Drain: %v", err)
		}
		second.empty(0)
		stops := rt.Calls(fake.Match{Method: fake.StopContainer})
		if request, ok := stops[0].Request.(*runtimeapi.StopContainerRequest); !ok || request.Timeout != 10 {
			t.Errorf("stopped with %+v, want the pod's own grace of 10 s", stops[0].Request)
		}
	})
}

// TestDrainWaitsForRuntime: a drain that finds the runtime down goes on asking; what
// runs there is stopped when it is back.
func TestDrainWaitsForRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		root := t.TempDir()
		first := newRig(t, rt, root).start()
		first.set(newPod("web"))
		first.phase("uid-web", v1.PodRunning, 10*time.Second)
		first.stop()
		rt.SetDown(true)
		second := newRig(t, rt, root).start()
		synctest.Wait()
		drained := make(chan error)
		go func() { drained <- second.engine.Drain(t.Context()) }()
		select {
		case err := <-drained:
			t.Errorf("gave up: %v", err)
		case <-time.After(time.Minute):
		}
		rt.SetDown(false)
		if err := <-drained; err != nil {
			t.Errorf("Drain: %v", err)
		}
		second.empty(0)
	})
}

// TestDrainNamesPodsItCouldNotStop: a pod that cannot be stopped is named.
func TestDrainNamesPodsItCouldNotStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.Workers.DrainTimeout = time.Second }).start()
		r.set(newPod("stuck"))
		r.phase("uid-stuck", v1.PodRunning, 10*time.Second)
		rt.Inject(fake.Fault{Match: fake.Match{Method: fake.StopContainer}, Effect: fake.Effect{Hang: true}})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := r.engine.Drain(ctx); err == nil || !strings.Contains(err.Error(), "default/stuck") {
			t.Errorf("Drain: %v, want an error that names default/stuck", err)
		}
	})
}

// TestSecondRunIsAnError: a second Run is an error, and so is a second engine on one folder.
func TestSecondRunIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		r := newRig(t, fake.New(fake.Options{}), root).start()
		r.set()
		<-r.engine.Ready()
		if err := r.engine.Run(t.Context()); !errors.Is(err, podwright.ErrRunning) {
			t.Errorf("second Run: %v", err)
		}
		other := newRig(t, fake.New(fake.Options{}), root)
		if err := other.engine.Run(t.Context()); !errors.Is(err, podwright.ErrInUse) {
			t.Errorf("second engine on one folder: %v", err)
		}
	})
}

// TestClosedSourceEndsRun: when its only source is closed the engine ends and leaves the
// pods.
func TestClosedSourceEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		r := newRig(t, rt, t.TempDir()).start()
		r.set(newPod("web"))
		r.phase("uid-web", v1.PodRunning, 10*time.Second)
		if err := r.source.Close(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		<-r.ended
		if rt.Running("uid-web", "main") != 1 {
			t.Error("the pod does not run any more")
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

func TestConfigReportsEveryProblem(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	_, err := podwright.New(podwright.Config{
		RootDir: "relative", Node: podwright.Node{Name: "Not A Name", IPs: []string{"10.0.0.256"}},
		Workers: podworkers.Options{SyncFrequency: -1, Events: &events{}},
		Observe: podwright.Observe{Sinks: []status.StatusSink{nil}},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"Runtime is required", "Images is required", "Sources is empty", "Sinks[0]", `RootDir "relative"`, "Not A Name", "Node.IPs[0]", "Workers.SyncFrequency is negative", "Workers.Events is set by the engine: use Observe.Events"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
	rt := fake.New(fake.Options{})
	if err := writeFile(file); err != nil {
		t.Fatal(err)
	}
	_, err = podwright.New(podwright.Config{
		Runtime: rt, Images: rt, Sources: []syncloop.Source{source.NewChannel(source.ChannelOptions{})},
		RootDir: filepath.Join(file, "below"), Node: podwright.Node{Name: "n1"},
	})
	if err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a folder below a file: %v", err)
	}
}
