package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
)

// TestDrainLeavesNothing: a drain stops every pod with its grace and leaves nothing, and Run ends.
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

// TestDrainNeedsNoSource: pods from before are drained although no source has answered yet.
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

// TestDrainWaitsForRuntime: a drain that finds the runtime down keeps asking, and stops what runs
// there once the runtime is back.
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

// TestDrainNamesPodsItCouldNotStop: a drain names a pod that it cannot stop.
func TestDrainNamesPodsItCouldNotStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.Workers.DrainTimeout = time.Second }).start()
		r.set(newPod("stuck"))
		r.phase("uid-stuck", v1.PodRunning, 10*time.Second)
		rt.Inject(fake.Fault{Match: fake.Match{Method: fake.StopContainer}, Effect: fake.Effect{Hang: true}})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := r.engine.Drain(ctx); err == nil || errors.Is(err, podwright.ErrKept) || !strings.Contains(err.Error(), "default/stuck") {
			t.Errorf("Drain: %v, want an error that names default/stuck", err)
		}
	})
}

// TestDrainLeavesEachPodItsOwnGrace: IN7, IN1. Ten deaf pods run from before; half of them have
// been stopping for 20 s of their 60 when the agent is killed. The next agent, whose source does
// not answer, is drained at once: all pods use the rest of their own grace at the same time, and
// the drain ends with the longest.
func TestDrainLeavesEachPodItsOwnGrace(t *testing.T) {
	const n, grace, passed = 10, 60, 20
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{Script: func(fake.Launch) fake.Script { return fake.Script{IgnoreTERM: true} }})
		root := t.TempDir()
		var all []*v1.Pod
		for i := range n {
			pod := newPod(fmt.Sprint("deaf-", i))
			pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](grace)
			all = append(all, pod)
		}
		first := newRig(t, rt, root, killed).start()
		first.set(all...)
		for _, pod := range all {
			first.phase(pod.UID, v1.PodRunning, 30*time.Second)
		}
		first.set(all[:n/2]...)
		<-time.After(passed * time.Second)
		first.stop()
		before := len(rt.Calls(fake.Match{Method: fake.StopContainer}))

		second := newRig(t, rt, root).start()
		<-time.After(time.Second)
		began := time.Now()
		if err := second.engine.Drain(t.Context()); err != nil {
			t.Errorf("Drain: %v", err)
		}
		if took := time.Since(began); took > (grace+5)*time.Second {
			t.Errorf("the drain took %v", took)
		}
		stops := rt.Calls(fake.Match{Method: fake.StopContainer})[before:]
		graces := map[bool]int{}
		for _, s := range stops {
			switch got := s.Request.(*runtimeapi.StopContainerRequest).GetTimeout(); {
			case got == grace:
				graces[false]++
			case got >= grace-passed-2 && got <= grace-passed:
				graces[true]++
			default:
				t.Errorf("a pod has %d s", got)
			}
			if late := s.Start.Sub(began); late > time.Second {
				t.Errorf("a pod was told to stop %v after the drain began", late)
			}
		}
		if graces[false] != n/2 || graces[true] != n/2 {
			t.Errorf("%d pods have their whole grace, %d what was left of it", graces[false], graces[true])
		}
		second.empty(0)
	})
}

// TestDrainTellsUnreadablePodsToStop: V8, IN1. A pod runs from before, its source has not answered,
// and the runtime lists it but does not describe it. A drain still tells the pod to stop, and stops
// the others meanwhile.
func TestDrainTellsUnreadablePodsToStop(t *testing.T) {
	for name, effect := range map[string]fake.Effect{"hangs": {Hang: true}, "fails": {Err: errors.New("broken metadata")}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt, root := fake.New(fake.Options{}), t.TempDir()
				first := newRig(t, rt, root, killed).start()
				web, good := newPod("web"), newPod("good")
				first.set(web, good)
				first.phase(web.UID, v1.PodRunning, time.Minute)
				first.phase(good.UID, v1.PodRunning, time.Minute)
				first.stop()
				rt.Inject(fake.Fault{Match: fake.Match{Method: fake.ContainerStatus, PodUID: web.UID}, Effect: effect})
				second := newRig(t, rt, root).start()
				<-time.After(time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := second.engine.Drain(ctx); err == nil || !strings.Contains(err.Error(), "default/web") || strings.Contains(err.Error(), "default/good") {
					t.Errorf("Drain: %v, want an error that names default/web", err)
				}
				if rt.Running(web.UID, "main")+rt.Running(good.UID, "main") != 0 {
					t.Error("it was not told to stop")
				}
			})
		})
	}
}

// TestDrainedPodsRunFromMemory: SN5, RO3. A node is drained, and its source does not answer the next agents. The static pods that
// the source wanted run, as they would after a power loss; those that it had dropped or that had ended do not.
func TestDrainedPodsRunFromMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root := byContainer(map[string]fake.Script{"job": {Exit: &fake.Exit{After: time.Second}}, "slow": {OnTERM: fake.Exit{After: 5 * time.Second}}}), t.TempDir()
		r := newRig(t, rt, root).start()
		done, cut := withPolicy(newPod("done", "job"), v1.RestartPolicyNever), withPolicy(newPod("cut"), v1.RestartPolicyNever)
		r.set(newPod("a"), done, cut, newPod("dropped", "slow"))
		r.phase("uid-a", v1.PodRunning, time.Minute)
		r.phase("uid-cut", v1.PodRunning, time.Minute)
		r.phase("uid-dropped", v1.PodRunning, time.Minute)
		r.phase("uid-done", v1.PodSucceeded, time.Minute)
		r.set(newPod("a"), done, cut)
		<-time.After(time.Second)
		for life := 1; life <= 3; life++ {
			switch life {
			case 2: // the next agent is drained before the records stand in
				drainNow(r)
				r = newRig(t, rt, root).start()
				<-time.After(time.Second)
			case 3: // and so is one that finds the pods running
				r.stop()
				r = newRig(t, rt, root).start()
				<-time.After(time.Second)
			}
			drainNow(r)
			r = newRig(t, rt, root).start()
			<-time.After(time.Minute)
			r.phase("uid-a", v1.PodRunning, time.Second)
			r.phase("uid-cut", v1.PodRunning, time.Second)
			for uid, want := range map[types.UID]int{"uid-a": life + 1, "uid-cut": life + 1, "uid-done": 1, "uid-dropped": 1} {
				if n := starts(rt, uid); n != want {
					t.Errorf("life %d: %s was started %d times, want %d", life, uid, n, want)
				}
			}
		}
		r.set(newPod("b"))
		r.phase("uid-b", v1.PodRunning, 10*time.Second)
		r.within(time.Minute, "the others to go", func() error {
			if all := r.engine.Pods(); len(all) != 1 {
				return fmt.Errorf("%d pods", len(all))
			}
			return nil
		})
		r.stop()
		r = newRig(t, rt, root).start()
		<-time.After(time.Minute)
		if n, b := starts(rt, "uid-a"), starts(rt, "uid-b"); n != 4 || b != 1 {
			t.Errorf("a was started %d times, b %d times", n, b)
		}
	})
}

// drainNow drains an engine, and leaves nothing.
func drainNow(r *rig) {
	r.t.Helper()
	if err := r.engine.Drain(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	<-r.ended
	r.empty(0)
}
