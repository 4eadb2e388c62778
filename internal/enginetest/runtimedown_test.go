package enginetest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/admission"
)

// TestHungPodDelaysNoOther: a pod whose calls hang delays no other pod, and the engine names it.
func TestHungPodDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		rt.Inject(
			fake.Fault{Match: fake.Match{Method: fake.CreateContainer, Pod: "bad"}, Effect: fake.Effect{Hang: true}},
			fake.Fault{Match: fake.Match{Method: fake.RunPodSandbox, Pod: "worse"}, Effect: fake.Effect{Err: errors.New("no space left on device")}},
		)
		r := newRig(t, rt, t.TempDir()).start()
		pods := []*v1.Pod{newPod("bad"), newPod("worse")}
		for i := range 20 {
			pods = append(pods, newPod(fmt.Sprintf("good-%d", i)))
		}
		r.set(pods...)
		for i := range 20 {
			r.phase(types.UID(fmt.Sprintf("uid-good-%d", i)), v1.PodRunning, 5*time.Second)
		}
		r.within(time.Minute, "Explain to give the reason", func() error {
			e, ok := r.engine.Explain("uid-worse")
			if !ok || e.Worker == nil || !strings.Contains(e.Worker.LastError, "no space left") {
				return fmt.Errorf("%+v", e.Worker)
			}
			return nil
		})
		// Deleting the hung pod interrupts its call.
		r.set(pods[2:]...)
		r.within(5*time.Second, "the bad pods to be gone", func() error {
			if p := r.pod("uid-bad"); p != nil {
				return errors.New(r.explain("uid-bad"))
			}
			return nil
		})
	})
}

// TestEngineStartsWithoutRuntime: edge case 24. An engine starts without its runtime, says so, and
// continues when the runtime comes. A deletion in between takes effect.
func TestEngineStartsWithoutRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		rt.SetDown(true)
		r := newRig(t, rt, t.TempDir()).start()
		r.set(newPod("web"), newPod("short"))
		<-time.After(time.Minute)
		synctest.Wait()
		if err := r.engine.Healthy(); err == nil || !strings.Contains(err.Error(), "runtime") {
			t.Errorf("Healthy: %v", err)
		}
		select {
		case <-r.engine.Ready():
			t.Error("ready without a runtime")
		default:
		}
		rt.SetDown(false)
		r.phase("uid-web", v1.PodRunning, 30*time.Second)
		<-r.engine.Ready()
		if err := r.engine.Healthy(); err != nil {
			t.Errorf("Healthy: %v", err)
		}
		rt.SetDown(true)
		<-time.After(40 * time.Second)
		r.set(newPod("web"))
		<-time.After(time.Minute)
		rt.SetDown(false)
		r.within(30*time.Second, "the deleted pod to be gone", func() error {
			if n := rt.Running("uid-short", "main"); n != 0 {
				return fmt.Errorf("%d containers run", n)
			}
			return nil
		})
		if f := rt.Facts("uid-web", "main"); f.Started != 1 {
			t.Errorf("web was started %d times", f.Started)
		}
	})
}

// TestOnlyHostNetworkStartsWithoutNetwork: RH3, edge case 25. Pods on the host network start. The others wait for
// the network, have an event that says so, try again every 1 to 1.5 s, and start as soon as the network is there.
func TestOnlyHostNetworkStartsWithoutNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, tries := fake.New(fake.Options{}), make(chan time.Time, 1000)
		rt.SetConditions(true, false)
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) {
			c.Admission.Soft = []admission.Handler{admission.HandlerFunc(func(q admission.Request) admission.Verdict {
				if q.Pod.Name == "web" {
					tries <- time.Now()
				}
				return admission.Verdict{}
			})}
		}).start()
		host := newPod("host")
		host.Spec.HostNetwork = true
		r.set(host, newPod("web"))
		r.phase("uid-host", v1.PodRunning, 10*time.Second)
		<-time.After(time.Minute)
		synctest.Wait()
		if p := r.pod("uid-web"); p.Status.Phase != v1.PodPending || rt.CallCount(fake.RunPodSandbox) != 1 {
			t.Errorf("web is %s without a network, %d sandboxes", p.Status.Phase, rt.CallCount(fake.RunPodSandbox))
		}
		if e, _ := r.engine.Explain("uid-web"); e.Worker == nil || !strings.Contains(e.Worker.LastError, "network is not ready") {
			t.Errorf("explained as %+v", e.Worker)
		}
		if said := r.events.said("web NetworkNotReady"); len(said) == 0 || len(said) > 6 || !strings.HasPrefix(said[0], "network is not ready: ") {
			t.Errorf("events %q", said)
		}
		if err := r.engine.Healthy(); err != nil {
			t.Errorf("RH3: a network that is not ready stops the engine: %v", err)
		}
		for last := <-tries; len(tries) > 0; {
			next := <-tries
			if gap := next.Sub(last); gap < time.Second || gap > 1500*time.Millisecond {
				t.Errorf("tried again after %v", gap)
			}
			last = next
		}
		rt.SetConditions(true, true)
		r.phase("uid-web", v1.PodRunning, 8*time.Second)
	})
}
