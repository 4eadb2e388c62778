package agenttest

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/fake"
)

// TestObjectsOfEndedPodsAreNotWatched: KO1. A pod that has ended stays on the API server, as those of jobs do for days, and
// what it referred to is neither watched nor read any more, by its agent or the next one.
func TestObjectsOfEndedPodsAreNotWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, life{scripts: map[string]func(fake.Launch) fake.Script{"main": always(fake.Script{Exit: &fake.Exit{After: time.Minute}})}}, nil)
		w.prepare()
		w.setConfig("1")
		pod := withVolumes(newPod("job", "uid-job", "main"))
		pod.Spec.RestartPolicy = v1.RestartPolicyNever
		w.create(pod)
		w.start()
		requests := func() (n int) {
			for _, call := range w.ways[len(w.ways)-1].made() {
				if strings.Contains(call, "/configmaps") || strings.Contains(call, "/secrets") {
					n++
				}
			}
			return n
		}
		w.pass(5 * time.Minute)
		while := requests()
		if while == 0 {
			t.Fatal("the objects of the pod were not read")
		}
		w.setConfig("2")
		w.pass(3 * time.Hour) // a watch lasts up to an hour
		if more := requests() - while; more != 0 {
			t.Errorf("%d requests for the objects of a pod that has ended", more)
		}
		w.stop()
		w.start()
		w.pass(10 * time.Minute)
		if n := requests(); n != 0 {
			t.Errorf("%d requests of the next agent for the objects of a pod that has ended", n)
		}
		w.stop()
	})
}
