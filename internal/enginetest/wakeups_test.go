package enginetest_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime/fake"
)

// TestVictimsEndWakesTheCriticalPod: IN6. A critical pod starts as soon as the pods that make room
// for it have stopped, however long that took, even in a crowd.
func TestVictimsEndWakesTheCriticalPod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(map[string]fake.Script{"deaf": {IgnoreTERM: true}})
		r := newRig(t, rt, t.TempDir(), roomFor("3")).start()
		var pods []*v1.Pod
		for i := range 100 {
			pods = append(pods, newPod(fmt.Sprintf("quiet-%d", i)))
		}
		victim, dns := asking(newPod("victim", "deaf"), "2"), critical(asking(newPod("dns"), "2"))
		victim.Spec.TerminationGracePeriodSeconds = ptr.To[int64](63)
		pods = append(pods, victim)
		r.set(pods...)
		for _, p := range pods {
			r.phase(p.UID, v1.PodRunning, time.Minute)
		}
		told := time.Now()
		r.set(append(pods, dns)...)
		r.phase(dns.UID, v1.PodRunning, 2*time.Minute)
		if took := time.Since(told); took < 63*time.Second || took > 63*time.Second+500*time.Millisecond {
			t.Errorf("the critical pod runs after %v; its victim had stopped after 63 s", took)
		}
	})
}

// TestOpenGateWakesHeldPods: IN13. Pods whose start waits for the gate, in their workers,
// start as soon as it opens.
func TestOpenGateWakesHeldPods(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		r := newRig(t, rt, t.TempDir()).start()
		var pods []*v1.Pod
		for i := range 100 {
			pods = append(pods, newPod(fmt.Sprintf("web-%d", i)))
		}
		remove := rt.Inject(fake.Fault{Match: fake.Match{Method: fake.RunPodSandbox}, Effect: fake.Effect{Err: errors.New("no address left")}})
		r.set(pods...)
		<-time.After(10 * time.Second)
		rt.SetConditions(false, true)
		<-time.After(6 * time.Second)
		remove()
		<-time.After(32 * time.Second) // meanwhile the workers try again
		synctest.Wait()
		for _, p := range pods {
			if n := starts(rt, p.UID); n != 0 {
				t.Fatalf("%s: %d starts while the gate is closed", p.UID, n)
			}
		}
		lifted := time.Now()
		rt.SetConditions(true, true)
		r.within(10*time.Second, "all pods to start", func() error {
			for _, p := range pods {
				if n := starts(rt, p.UID); n != 1 {
					return fmt.Errorf("%s: %d starts, %s", p.UID, n, r.explain(p.UID))
				}
			}
			return nil
		})
		// The engine checks the runtime's health every second while the runtime is not well.
		if took := time.Since(lifted); took > 1500*time.Millisecond {
			t.Errorf("they started %v after the runtime was well", took)
		}
	})
}
