package enginetest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
)

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
