package enginetest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/admission"
)

// TestBadHandlerHoldsItsPodAlone: IN6, B9. A handler panics for four of ten pods and does not
// answer for three. The other three run at once; each bad pod has one event, and Healthy names it
// and what it waits for. When the handler is well again, all run.
func TestBadHandlerHoldsItsPodAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var well atomic.Bool
		hung := make(chan struct{})
		r := newRig(t, fake.New(fake.Options{}), t.TempDir(), func(c *podwright.Config) {
			c.Admission.Handlers = []admission.Handler{admission.HandlerFunc(func(r admission.Request) admission.Verdict {
				switch {
				case well.Load():
				case strings.HasPrefix(r.Pod.Name, "panics"):
					panic("no policy for " + r.Pod.Name)
				case strings.HasPrefix(r.Pod.Name, "hangs"):
					<-hung
				}
				return admission.Verdict{}
			})}
		}).start()
		release := sync.OnceFunc(func() { close(hung) })
		t.Cleanup(release) // before the engine is stopped
		var pods, bad, good []*v1.Pod
		for i := range 4 {
			bad = append(bad, newPod(fmt.Sprintf("panics-%d", i)))
		}
		for i := range 3 {
			bad, good = append(bad, newPod(fmt.Sprintf("hangs-%d", i))), append(good, newPod(fmt.Sprintf("web-%d", i)))
		}
		pods = append(append(pods, bad...), good...)
		r.set(pods...)
		for _, p := range good {
			r.phase(p.UID, v1.PodRunning, 5*time.Second)
		}
		late := newPod("late")
		r.set(append(pods, late)...)
		r.phase(late.UID, v1.PodRunning, 5*time.Second)

		r.within(20*time.Second, "every bad pod is named", func() error {
			err := r.problems()
			if err == nil {
				return errors.New("Healthy is nil")
			}
			for _, p := range bad {
				if !strings.Contains(err.Error(), p.Name) {
					return fmt.Errorf("%s is not named: %w", p.Name, err)
				}
			}
			return nil
		})
		<-time.After(time.Hour)
		for _, p := range bad {
			if n := r.events.count(p.Name + " UnexpectedAdmissionError"); n != 1 {
				t.Errorf("%s: %d events, want 1", p.Name, n)
			}
			if e, _ := r.engine.Explain(p.UID); !strings.Contains(e.Held, "Admission.Handlers[0]") {
				t.Errorf("%s: held because %q", p.Name, e.Held)
			}
		}
		well.Store(true)
		release()
		for _, p := range bad {
			r.phase(p.UID, v1.PodRunning, 15*time.Second)
		}
		r.within(time.Second, "all is well", r.problems)
	})
}

// critical returns the pod with a priority that makes room for it.
func critical(p *v1.Pod) *v1.Pod { return withPriority(p, 2_000_000_000) }

// TestMakingRoomHoldsItsPodAlone: IN6. Three critical pods wait for victims that do not stop. Pods
// that fit beside them run at once. A pod that would take their room waits, but no longer than 1.5
// times the victims' grace. Healthy names the critical pods.
func TestMakingRoomHoldsItsPodAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		rt.Inject(fake.Fault{Match: fake.Match{Method: fake.StopContainer}, Effect: fake.Effect{Hang: true}})
		r := newRig(t, rt, t.TempDir(), roomFor("9")).start()
		var pods []*v1.Pod
		for i := range 3 {
			deaf := asking(newPod(fmt.Sprintf("deaf-%d", i)), "2")
			deaf.Spec.TerminationGracePeriodSeconds = ptr.To[int64](20)
			pods = append(pods, deaf)
		}
		r.set(pods...)
		for _, p := range pods {
			r.phase(p.UID, v1.PodRunning, time.Minute)
		}
		var waiting []*v1.Pod
		for i := range 3 {
			waiting = append(waiting, critical(asking(newPod(fmt.Sprintf("dns-%d", i)), "4")))
		}
		pods = append(pods, waiting...)
		r.set(pods...)
		<-time.After(time.Second)
		if n := r.events.count("deaf-0 Preempting") + r.events.count("deaf-1 Preempting") + r.events.count("deaf-2 Preempting"); n < 2 {
			t.Fatalf("%d victims", n)
		}

		small := newPod("small") // asks for nothing
		rival := asking(newPod("rival"), "3")
		pods = append(pods, small, rival)
		r.set(pods...)
		r.phase(small.UID, v1.PodRunning, 5*time.Second)
		if p := r.pod(rival.UID); p.Status.Phase == v1.PodRunning {
			t.Error("a pod took the room of a critical one")
		}
		r.phase(rival.UID, v1.PodRunning, 40*time.Second)
		r.within(10*time.Second, "the critical pods are named", func() error {
			err := r.problems()
			for _, p := range waiting[:1] {
				if err == nil || !strings.Contains(err.Error(), p.Name) {
					return fmt.Errorf("%s is not named: %w", p.Name, err)
				}
			}
			return nil
		})
	})
}

// TestSlowHandlerCountsWhatItGave: AD1, IN6. A handler has one place to give and answers slowly. The
// engine asks it about one pod after the other: the first pod gets the place, and the others are refused.
func TestSlowHandlerCountsWhatItGave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var most, now atomic.Int32
		r := newRig(t, fake.New(fake.Options{}), t.TempDir(), func(c *podwright.Config) {
			c.Admission.Handlers = []admission.Handler{admission.HandlerFunc(func(q admission.Request) admission.Verdict {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				taken := slices.Collect(q.Others)
				<-time.After(50 * time.Millisecond)
				if len(taken) > 0 {
					return admission.Refuse("NoPlace", "%s has the place", taken[0].Name)
				}
				return admission.Verdict{}
			})}
		})
		r.start()
		var pods []*v1.Pod
		for i := range 5 {
			pods = append(pods, newPod(fmt.Sprintf("web-%d", i)))
		}
		r.set(pods...)
		r.phase(pods[0].UID, v1.PodRunning, 5*time.Second)
		for _, p := range pods[1:] {
			r.phase(p.UID, v1.PodFailed, 5*time.Second)
		}
		if n := most.Load(); n != 1 {
			t.Errorf("asked about %d pods at once", n)
		}
	})
}

// TestCrowdOfOpenVerdictsIsPassed: IN2, IN6. A handler does not answer for two hundred pods, and
// takes 30 ms for each of ten others. These came last, and still run within 5 s.
func TestCrowdOfOpenVerdictsIsPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan struct{})
		r := newRig(t, fake.New(fake.Options{}), t.TempDir(), func(c *podwright.Config) {
			c.Admission.Handlers = []admission.Handler{admission.HandlerFunc(func(q admission.Request) admission.Verdict {
				if strings.HasPrefix(q.Pod.Name, "hangs") {
					<-hung
				}
				<-time.After(30 * time.Millisecond)
				return admission.Verdict{}
			})}
		})
		r.start()
		release := sync.OnceFunc(func() { close(hung) })
		t.Cleanup(release) // before the engine is stopped
		var pods, good []*v1.Pod
		for i := range 200 {
			pods = append(pods, newPod(fmt.Sprintf("hangs-%03d", i)))
		}
		for i := range 10 {
			good = append(good, newPod(fmt.Sprintf("web-%d", i)))
		}
		r.set(append(pods, good...)...)
		began := time.Now()
		for _, p := range good {
			r.phase(p.UID, v1.PodRunning, 5*time.Second)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the good pods run after %v", took)
		}
		release()
		for _, p := range pods {
			r.phase(p.UID, v1.PodRunning, time.Minute)
		}
	})
}
