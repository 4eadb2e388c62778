package enginetest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/admission"
)

// given returns how many CPUs running containers were given together.
func given(r *rig, pods ...*v1.Pod) (cpus int64) {
	for _, p := range pods {
		got := r.pod(p.UID)
		if got == nil || got.Status.Phase != v1.PodRunning || len(got.Status.ContainerStatuses) == 0 {
			continue
		}
		cpus += got.Status.ContainerStatuses[0].AllocatedResources.Cpu().Value()
	}
	return cpus
}

// TestAdmissionCountsWhatWasGranted: AD1, spec/runtime.md 21.4. A resize that was granted room, and that waits for the
// pod's step to end, has that room: no new pod gets it.
func TestAdmissionCountsWhatWasGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(nil)
		r := newRig(t, rt, t.TempDir(), roomFor("4")).start()
		a, b, c := newPod("a"), newPod("b"), newPod("c")
		r.set(sized(a, "1", "64Mi"), sized(b, "2", "64Mi"))
		r.phase(a.UID, v1.PodRunning, 10*time.Second)
		r.phase(b.UID, v1.PodRunning, 10*time.Second)
		r.set(sized(a, "3", "64Mi"), sized(b, "2", "64Mi"))
		r.pending(a.UID, "Deferred")

		rt.Inject(fake.Fault{Match: fake.Match{Method: fake.StartContainer, PodUID: a.UID}, Effect: fake.Effect{Delay: 90 * time.Second}})
		if err := rt.Exit(a.UID, "main", fake.Exit{Code: 1}); err != nil {
			t.Fatal(err)
		}
		<-time.After(15 * time.Second) // its step waits for the runtime
		r.set(sized(a, "3", "64Mi"))
		r.gone(b.UID, time.Minute)
		r.set(sized(a, "3", "64Mi"), sized(c, "3", "64Mi"))
		<-time.After(time.Minute)
		r.shows(a.UID, "3", "64Mi")
		r.rejected(c.UID, "OutOfcpu")
		if n := given(r, a, c); n > 4 {
			t.Errorf("pods have %d CPUs of 4", n)
		}
	})
}

// TestPodIsAllocatedWhatItWasAdmittedWith: spec/runtime.md 21.1, 21.4. What a pod asks for between its admission and
// its first step is a resize.
func TestPodIsAllocatedWhatItWasAdmittedWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(nil)
		rt.SetConditions(true, false)
		r := newRig(t, rt, t.TempDir(), roomFor("4")).start()
		a, b := newPod("a"), newPod("b")
		r.set(sized(a, "1", "64Mi"), sized(b, "1", "64Mi"))
		<-time.After(time.Minute)
		r.set(sized(a, "64", "64Mi"), sized(b, "4", "64Mi"))
		<-time.After(time.Minute)
		rt.SetConditions(true, true)
		r.phase(a.UID, v1.PodRunning, 2*time.Minute)
		r.phase(b.UID, v1.PodRunning, 2*time.Minute)
		r.pending(a.UID, "Infeasible")
		r.pending(b.UID, "Deferred")
		if n := given(r, a, b); n != 2 {
			t.Errorf("pods have %d CPUs, and were admitted with 2", n)
		}
	})
}

// TestPodWithoutRecordIsResizedLater: spec/runtime.md 21.1, 21.4. A pod that asked for nothing does not get more than
// nothing because its agent was restarted.
func TestPodWithoutRecordIsResizedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root := byContainer(nil), t.TempDir()
		r := newRig(t, rt, root, roomFor("4")).start()
		a := newPod("a")
		r.set(a)
		r.phase(a.UID, v1.PodRunning, 10*time.Second)
		r.stop()
		r = newRig(t, rt, root, roomFor("4")).start()
		r.set(sized(a, "64", "64Mi"))
		r.within(time.Minute, "the pod", func() error {
			if p := r.pod(a.UID); p == nil || p.Status.Phase != v1.PodRunning {
				return errors.New("not yet")
			}
			return nil
		})
		r.pending(a.UID, "Infeasible")
		if n := rt.CallCount(fake.UpdateContainerResources); n != 0 {
			t.Errorf("%d updates", n)
		}
	})
}

// TestPodWithoutVerdictDelaysNoResize: IN6, spec/runtime.md 21.4. A pod whose verdict is overdue has no claim to room any
// more, for resizes as for new pods.
func TestPodWithoutVerdictDelaysNoResize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan struct{})
		r := newRig(t, byContainer(nil), t.TempDir(), roomFor("4"), func(c *podwright.Config) {
			c.Admission.Handlers = []admission.Handler{admission.HandlerFunc(func(r admission.Request) admission.Verdict {
				if r.Pod.Name == "hangs" {
					<-hung
				}
				return admission.Verdict{}
			})}
		}).start()
		t.Cleanup(func() { close(hung) }) // before the engine is stopped
		a, hangs := newPod("a"), newPod("hangs")
		r.set(sized(a, "1", "64Mi"))
		r.phase(a.UID, v1.PodRunning, 10*time.Second)
		r.set(sized(a, "1", "64Mi"), sized(hangs, "3", "64Mi"))
		<-time.After(time.Minute)
		r.set(sized(a, "2", "64Mi"), sized(hangs, "3", "64Mi"))
		r.shows(a.UID, "2", "64Mi")
	})
}

// TestPreemptionGoesOnAfterARestart: IN6, IN8. The next agent waits for the pod that its predecessor stopped, and stops
// no other one.
func TestPreemptionGoesOnAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root := byContainer(map[string]fake.Script{"slow": {IgnoreTERM: true}}), t.TempDir()
		r := newRig(t, rt, root, roomFor("4")).start()
		v, w := asking(newPod("v", "slow"), "2"), asking(newPod("w", "slow"), "2")
		for _, p := range []*v1.Pod{v, w} {
			p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](60)
		}
		dns := withPriority(asking(newPod("dns"), "2"), 2_000_000_000)
		r.set(v, w)
		r.phase(v.UID, v1.PodRunning, time.Minute)
		r.phase(w.UID, v1.PodRunning, time.Minute)
		r.set(v, w, dns)
		<-time.After(5 * time.Second)
		r.stop()
		r = newRig(t, rt, root, roomFor("4")).start()
		r.set(v, w, dns)
		took := r.phase(dns.UID, v1.PodRunning, 2*time.Minute)
		if n := rt.Running(v.UID, "slow") + rt.Running(w.UID, "slow"); n != 1 {
			t.Errorf("%d pods run beside the critical one, after %v", n, took)
		}
		if p := r.pod(w.UID); p.Status.Phase != v1.PodRunning {
			t.Errorf("the other pod: %+v", p.Status)
		}
		if n := r.events.count("v Preempting") + r.events.count("w Preempting"); n > 0 {
			t.Errorf("%d more events", n)
		}
	})
}

// TestCriticalPodWaitsForPodsThatEnd: section 16. Room that a pod is about to leave is not made a second time.
func TestCriticalPodWaitsForPodsThatEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(map[string]fake.Script{"slow": {IgnoreTERM: true}})
		r := newRig(t, rt, t.TempDir(), roomFor("4")).start()
		leaving, stays := withPriority(asking(newPod("leaving", "slow"), "2"), 100), asking(newPod("stays"), "2")
		r.set(leaving, stays)
		r.phase(leaving.UID, v1.PodRunning, time.Minute)
		r.phase(stays.UID, v1.PodRunning, time.Minute)
		deleted := leaving.DeepCopy()
		deleted.DeletionTimestamp, deleted.DeletionGracePeriodSeconds = ptr.To(metav1.Now()), ptr.To[int64](10)
		r.set(deleted, stays)
		<-time.After(time.Second)
		dns := withPriority(asking(newPod("dns"), "2"), 2_000_000_000)
		r.set(deleted, stays, dns)
		r.phase(dns.UID, v1.PodRunning, time.Minute)
		if p := r.pod(stays.UID); p.Status.Phase != v1.PodRunning {
			t.Errorf("a pod had to go although there was about to be room: %+v", p.Status)
		}
	})
}
