package enginetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

// TestPodIsAllocatedWhatAnEarlierAgentAdmitted: spec/runtime.md 21.1. What a pod asks for between its admission and its first
// step is a resize, even if the agent is replaced in between.
func TestPodIsAllocatedWhatAnEarlierAgentAdmitted(t *testing.T) {
	for name, before := range map[string]string{"some": "1", "nothing": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt, root := byContainer(nil), t.TempDir()
				rt.SetConditions(true, false)
				r := newRig(t, rt, root, roomFor("4")).start()
				a, b := newPod("a"), sized(newPod("b"), "3", "64Mi")
				first := a
				if before != "" {
					first = sized(a, before, "64Mi")
				}
				r.set(first, b)
				<-time.After(time.Minute)
				r.set(sized(a, "4", "64Mi"), b)
				<-time.After(time.Minute)
				r.stop()
				r = newRig(t, rt, root, roomFor("4")).start()
				r.set(sized(a, "4", "64Mi"), b)
				<-time.After(time.Minute)
				rt.SetConditions(true, true)
				r.phase(a.UID, v1.PodRunning, 2*time.Minute)
				r.phase(b.UID, v1.PodRunning, 2*time.Minute)
				if n := given(r, a, b); n > 4 {
					t.Errorf("pods have %d CPUs of 4", n)
				}
			})
		})
	}
}
