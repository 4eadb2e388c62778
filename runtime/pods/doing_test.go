package pods_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime/fake"
)

// spec/runtime.md 16.10: what is under way is reported, each container on its own, and
// nothing once it is over.
func TestDoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(l fake.Launch) fake.Script {
			return fake.Script{OnTERM: fake.Exit{After: 10 * second}, Exec: func(e fake.Exec) fake.ExecResult {
				return fake.ExecResult{Took: 5 * second}
			}}
		})
		hook := &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"hook"}}}
		pod := newPod(func(p *v1.Pod) {
			p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
			p.Spec.InitContainers = []v1.Container{sidecar("side")}
			p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: hook, PreStop: hook}
		})
		want := func(want ...string) {
			t.Helper()
			synctest.Wait()
			got := w.m.Doing(pod.UID)
			slices.Sort(got) // containers are stopped side by side
			if !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		}
		w.syncAll(pod)
		w.syncAll(pod)
		var wg sync.WaitGroup
		pod.Spec.Containers[0].Image = "example.com/app:2"
		wg.Go(func() { w.syncAll(pod) })
		pass(17 * second)
		want("running the postStart hook of container app, 2 s of 600 s")
		wg.Wait()
		want()
		wg.Go(func() {
			if err := w.m.KillPod(t.Context(), pod, w.read(pod), nil); err != nil {
				t.Error(err)
			}
		})
		pass(2 * second)
		want("stopping container app, 2 s of 30 s grace, its preStop hook runs", "stopping container side, 2 s of 30 s grace, which waits for its turn")
		pass(5 * second)
		want("stopping container app, 7 s of 30 s grace", "stopping container side, 7 s of 30 s grace, which waits for its turn")
		pass(10 * second)
		want("stopping container side, 17 s of 30 s grace")
		wg.Wait()
		want()
	})
}
