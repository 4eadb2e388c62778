package agenttest

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/runtime/fake"
)

// TestDeletedPodThatIsLeftOut (KT4, M4): a pod of the API that never began, because a static pod has its name, can be
// deleted. The static pod has its mirror then, and goes on.
func TestDeletedPodThatIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, life{scripts: map[string]func(fake.Launch) fake.Script{"main": serves}}, nil)
		w.prepare()
		w.create(newPod("web-edge-1", "uid-api", "main"))
		w.static = []*v1.Pod{newStatic("web-edge-1", "uid-static", "main")}
		w.slow = map[string]time.Duration{"WATCH pods": 2 * time.Second} // the agent hears of the static pod first
		w.start()
		w.pass(5 * time.Minute)
		pods := w.admin.CoreV1().Pods("default")
		if p, err := pods.Get(t.Context(), "web-edge-1", metav1.GetOptions{}); err != nil || p.UID != "uid-api" || p.Status.StartTime != nil {
			t.Fatal(p, err)
		}
		if err := pods.Delete(t.Context(), "web-edge-1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.pass(20 * time.Second)
		if p, err := pods.Get(t.Context(), "web-edge-1", metav1.GetOptions{}); err != nil || p.UID != "uid-api" {
			t.Errorf("deleted before the pod that has its name could have made room: %v", err)
		}
		w.pass(2 * time.Minute)
		p, err := pods.Get(t.Context(), "web-edge-1", metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && p.UID == "uid-api" {
			t.Errorf("the pod is there: %v; %v", err == nil, err)
		}
		if n := w.rt.Running("uid-static", "main"); n != 1 {
			t.Errorf("%d containers of the static pod run", n)
		}
		w.stop()
	})
}
