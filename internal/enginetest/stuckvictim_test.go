package enginetest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/fake"
)

// TestStuckVictimIsReplaced: IN6: a pod that was told to make room, and that the runtime does not stop, holds up a critical
// pod no longer than one that stops for another reason: then another pod makes room.
func TestStuckVictimIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		r := newRig(t, rt, t.TempDir(), roomFor("2")).start()
		stuck, good := withPriority(asking(newPod("stuck"), "1"), -10), asking(newPod("good"), "1")
		r.set(stuck, good)
		r.phase(stuck.UID, v1.PodRunning, time.Minute)
		r.phase(good.UID, v1.PodRunning, time.Minute)
		rt.Inject(fake.Fault{
			Match: fake.Match{Func: func(c fake.Call) bool {
				return c.PodUID == stuck.UID && (c.Method == fake.StopContainer || c.Method == fake.StopPodSandbox)
			}},
			Effect: fake.Effect{Err: errors.New("the shim does not answer")},
		})
		dns := withPriority(asking(newPod("dns"), "1"), 2_000_000_000)
		r.set(stuck, good, dns)
		took := r.phase(dns.UID, v1.PodRunning, time.Hour)
		if n := r.events.count("stuck Preempting"); n != 1 || took > 2*time.Minute {
			t.Errorf("%d events, room after %v", n, took)
		}
	})
}
