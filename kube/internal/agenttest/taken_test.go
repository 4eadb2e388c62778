package agenttest

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/runtime/fake"
)

// TestCopyOfTheMachineRunsNothing: KN1. A copy of the machine, with its disk and certificate, does not start the pods that it
// remembers and tells nothing of them while the machine is the Node. It does once that is gone.
func TestCopyOfTheMachineRunsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := life{scripts: map[string]func(fake.Launch) fake.Script{"main": serves}}
		w, other := newWorld(t, l, nil), newWorld(t, l, nil)
		w.prepare()
		w.start()
		w.pass(3 * time.Second)
		w.create(newPod("web", "uid-web", "main"))
		w.pass(30 * time.Second)
		other.api, other.admin, other.machine, other.root = w.api, w.admin, "system-2", filepath.Join(t.TempDir(), "root")
		if err := sameTree(other.root, w.root); err != nil {
			t.Fatal(err)
		}
		version := func() string {
			p, err := w.admin.CoreV1().Pods("default").Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return p.ResourceVersion
		}
		before := version()
		other.start()
		w.pass(5 * time.Minute)
		if a, b := w.rt.Running("uid-web", "main"), other.rt.Running("uid-web", "main"); a != 1 || b != 0 {
			t.Errorf("%d containers run, and %d on the copy", a, b)
		}
		if after := version(); after != before {
			t.Errorf("the pod has version %s, and had %s before the copy was started", after, before)
		}
		w.stop()
		w.pass(2 * time.Minute)
		if n := other.rt.Running("uid-web", "main"); n != 1 {
			t.Errorf("%d containers run on the copy once the machine is gone", n)
		}
		other.stop()
	})
}
