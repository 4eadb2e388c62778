package agenttest

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/tale"
	"github.com/podwright/podwright/runtime/fake"
)

// TestServicesComeBeforePods: KO10. An agent is started while a pod has to be, and services take longer than pods to be
// read: no container fails for that. Without services the pods are known all the same, and wait.
func TestServicesComeBeforePods(t *testing.T) {
	for takes, want := range map[time.Duration]v1.PodPhase{0: v1.PodRunning, 3 * time.Second: v1.PodRunning, time.Minute: v1.PodPending} {
		t.Run(takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, life{scripts: map[string]func(fake.Launch) fake.Script{"main": serves}}, nil)
				w.slow = map[string]time.Duration{"WATCH services": takes}
				w.prepare()
				w.create(newPod("web", "uid-web", "main"))
				w.start()
				w.pass(10 * time.Second)
				a := accountOf(w.api.History(), tale.New(), nil)
				if got := a.pods["pod web, life 1"].Status.Phase; got != want {
					t.Errorf("%s, want %s", got, want)
				}
				if text, failed := a.events["Pod web Failed"]; failed != (want == v1.PodPending) {
					t.Errorf("the event of a failure: %t %s", failed, text)
				}
				w.stop()
			})
		})
	}
}
