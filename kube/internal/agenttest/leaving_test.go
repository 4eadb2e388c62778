package agenttest

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/kube"
	"github.com/podwright/podwright/runtime/fake"
)

// TestDrainOutlivesTheAgent: KN7. An agent that is ended while it drains, because its Node was deleted, is followed by one
// that goes on with that and does not register the Node again. The start after that does.
func TestDrainOutlivesTheAgent(t *testing.T) {
	for name, end := range map[string]func(w *world){
		"killed":     (*world).bury,
		"terminated": func(w *world) { w.agent.cancel(); <-w.agent.ended; w.start() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := always(fake.Script{OnTERM: fake.Exit{After: 30 * time.Second}})
				w := newWorld(t, life{scripts: map[string]func(fake.Launch) fake.Script{"main": slow}}, nil)
				w.whenGone = kube.Drain
				w.prepare()
				w.start()
				w.pass(3 * time.Second)
				web := newPod("web", "uid-web", "main")
				web.Spec.TerminationGracePeriodSeconds = ptr.To[int64](60)
				w.create(web)
				w.pass(10 * time.Second)
				nodes := w.admin.CoreV1().Nodes()
				if err := nodes.Delete(t.Context(), nodeName, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				w.pass(5 * time.Second)
				end(w)
				w.pass(15 * time.Second)
				if n := w.rt.Running("uid-web", "main"); n != 1 {
					t.Fatalf("%d containers run", n)
				}
				w.pass(time.Minute)
				select {
				case <-w.agent.ended:
				default:
					t.Error("the agent has not left")
					w.agent.cancel()
					<-w.agent.ended
				}
				if _, err := nodes.Get(t.Context(), nodeName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
					t.Errorf("the Node: %v", err)
				}
				if n := w.rt.Running("uid-web", "main"); n != 0 || !errors.Is(w.agent.err, kube.ErrNodeGone) {
					t.Errorf("%d containers run, Run ended with %v", n, w.agent.err)
				}
				w.start()
				w.pass(5 * time.Second)
				if _, err := nodes.Get(t.Context(), nodeName, metav1.GetOptions{}); err != nil {
					t.Errorf("the Node after a later start: %v", err)
				}
				w.stop()
			})
		})
	}
}
