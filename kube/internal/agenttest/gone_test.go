package agenttest

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime/fake"
)

// TestPodsThatAreGoneAreNotAskedFor: KW5, status.md 8.3, CK7. Of pods that the operator deleted by force, or that the
// node had refused, no call is made any more once they have ended, and no record stays.
func TestPodsThatAreGoneAreNotAskedFor(t *testing.T) {
	for _, killed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, life{scripts: map[string]func(fake.Launch) fake.Script{"main": serves}}, nil)
			w.prepare()
			w.start()
			w.pass(3 * time.Second)
			w.create(newPod("web", "uid-web", "main"))
			misplaced := newPod("misplaced", "uid-misplaced", "main")
			misplaced.Spec.NodeSelector = map[string]string{"disk": "ssd"}
			w.create(misplaced)
			w.pass(30 * time.Second)
			if killed {
				w.bury()
			}
			w.remove("web", 0)
			w.remove("misplaced", -1)
			w.pass(2 * time.Minute)
			link := w.ways[len(w.ways)-1]
			before := len(link.made())
			w.pass(10 * time.Minute)
			for _, call := range link.made()[before:] {
				if strings.Contains(call, "/pods/") {
					t.Errorf("killed before: %t; %s", killed, call)
					break
				}
			}
			for _, uid := range []string{"uid-web", "uid-misplaced"} {
				if e, _ := w.agent.engine.Explain(types.UID(uid)); e.Phase != "" || e.Worker != nil {
					t.Errorf("killed before: %t; %s is known: %+v", killed, uid, e)
				}
			}
			w.stop()
		})
	}
}
