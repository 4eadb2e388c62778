package agenttest

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/runtime/fake"
)

// TestPodEndedByOthersStops: syncloop.md 10, RECONCILE. A pod that somebody else reports as Failed, with nothing else changed,
// stops: its controller has made another one.
func TestPodEndedByOthersStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, life{scripts: map[string]func(fake.Launch) fake.Script{"main": serves}}, nil)
		w.prepare()
		w.start()
		w.pass(3 * time.Second)
		w.create(newPod("web", "uid-web", "main"))
		w.pass(30 * time.Second)
		pods := w.admin.CoreV1().Pods("default")
		p, err := pods.Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p.Status.Phase, p.Status.Reason = v1.PodFailed, "Outside"
		if _, err := pods.UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.pass(10 * time.Minute)
		if n := w.rt.Running("uid-web", "main"); n > 0 {
			t.Errorf("%d containers of a pod that is Failed run", n)
		}
		w.stop()
	})
}
