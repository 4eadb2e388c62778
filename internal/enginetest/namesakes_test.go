package enginetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/fake"
)

// TestReplacedWhileDownWaits: the successor of a pod that was replaced while no engine ran waits
// until the old pod, which still runs under the name, is gone (spec/podworkers.md N6), even if the
// runtime's first list is slow.
func TestReplacedWhileDownWaits(t *testing.T) {
	for _, slow := range []time.Duration{0, 3 * time.Second} {
		t.Run("first list takes "+slow.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := byContainer(map[string]fake.Script{"main": {OnTERM: fake.Exit{After: time.Hour}}})
				root := t.TempDir()
				first := newRig(t, rt, root).start()
				first.set(newPod("web"))
				first.phase("uid-web", v1.PodRunning, 10*time.Second)
				first.stop()

				if slow > 0 {
					rt.Inject(fake.Fault{Match: fake.Match{Method: fake.ListPodSandbox}, Times: 1, Effect: fake.Effect{Delay: slow}})
				}
				next := newPod("web")
				next.UID = "uid-next"
				second := newRig(t, rt, root).start()
				second.set(next)
				second.phase("uid-next", v1.PodRunning, 30*time.Second)
				if n := rt.Running("uid-web", "main"); n != 0 {
					t.Errorf("%d containers of the old pod run beside the new one", n)
				}
				stop := rt.Calls(fake.Match{Method: fake.StopContainer, PodUID: "uid-web"})
				run := rt.Calls(fake.Match{Method: fake.RunPodSandbox, PodUID: "uid-next"})
				if len(stop) == 0 || len(run) == 0 || run[0].Start.Before(stop[0].End) {
					t.Errorf("the new pod was started at %v, the old one stopped by %v", run, stop)
				}
			})
		})
	}
}
