package enginetest_test

import (
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/fake"
)

var burstPods = flag.Int("burst.pods", 0, "start and stop so many pods at once, instead of 1 and 100")

// callsOfABurst are the calls that a burst may make beyond those that make, start, stop and remove
// the pods.
type callsOfABurst struct{ lists, sandboxes, containers int }

// callsSince counts the calls of some methods since the last look.
type callsSince map[fake.Method]int

func (c callsSince) of(rt *fake.Runtime, methods ...fake.Method) (n int) {
	for _, m := range methods {
		now := rt.CallCount(m)
		n += now - c[m]
		c[m] = now
	}
	return n
}

func (c callsSince) burst(rt *fake.Runtime) callsOfABurst {
	return callsOfABurst{
		lists:      c.of(rt, fake.ListPodSandbox, fake.ListContainers),
		sandboxes:  c.of(rt, fake.PodSandboxStatus),
		containers: c.of(rt, fake.ContainerStatus),
	}
}

// slowAsContainerd gives the calls of a runtime the times that containerd takes for them on two
// cores with a hundred pods.
func slowAsContainerd(rt *fake.Runtime) {
	for method, took := range map[fake.Method]time.Duration{
		fake.RunPodSandbox: 150 * time.Millisecond, fake.CreateContainer: 40 * time.Millisecond, fake.StartContainer: 80 * time.Millisecond,
		fake.StopContainer: 60 * time.Millisecond, fake.StopPodSandbox: 100 * time.Millisecond,
		fake.RemoveContainer: 30 * time.Millisecond, fake.RemovePodSandbox: 50 * time.Millisecond,
		fake.ListPodSandbox: 8 * time.Millisecond, fake.ListContainers: 8 * time.Millisecond,
		fake.PodSandboxStatus: 2 * time.Millisecond, fake.ContainerStatus: 2 * time.Millisecond, fake.ImageStatus: 2 * time.Millisecond,
	} {
		rt.Inject(fake.Fault{Match: fake.Match{Method: method}, Effect: fake.Effect{Delay: took}})
	}
	// Later than the answer of the call that caused it: at the same moment, chance would decide whether an event is news.
	rt.OnEvent(func(fake.Event) fake.Delivery { return fake.Delivery{Delay: time.Millisecond} })
}

// TestCallsOfABurst: B14, 9.12, 19.7. Pods that start or stop at once share lists, and the engine
// reads once what a step made. A list makes the runtime look at everything it has, so with a list
// per pod, n pods would cost n squared.
func TestCallsOfABurst(t *testing.T) {
	t.Parallel()
	sizes := []int{1, 100}
	if *burstPods > 0 {
		sizes = []int{*burstPods}
	}
	for _, n := range sizes {
		t.Run(fmt.Sprint(n, " pods"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := fake.New(fake.Options{})
				slowAsContainerd(rt)
				r := newRig(t, rt, t.TempDir()).start()
				r.set()
				<-r.engine.Ready()
				calls := callsSince{}
				calls.burst(rt)
				calls.of(rt, fake.ImageStatus)

				pods := make([]*v1.Pod, n)
				for i := range pods {
					pods[i] = newPod(fmt.Sprint("p", i))
				}
				r.set(pods...)
				took := r.within(time.Hour, "all pods to run", func() error {
					running := 0
					if rt.CallCount(fake.StartContainer) == n {
						for _, p := range r.engine.Pods() {
							if p.Status.Phase == v1.PodRunning {
								running++
							}
						}
					}
					if running == n {
						return nil
					}
					return unmet(func() string { return fmt.Sprint(n-running, " pods do not run") })
				})
				got := calls.burst(rt)
				t.Logf("started in %v: %+v, %d calls of ImageStatus", took, got, rt.CallCount(fake.ImageStatus))
				if want := (callsOfABurst{lists: 4 + 3*n/10, sandboxes: n, containers: n}); got.lists > want.lists || got.sandboxes > want.sandboxes || got.containers > want.containers {
					t.Errorf("%+v calls to start %d pods, want at most %+v", got, n, want)
				}
				if images := calls.of(rt, fake.ImageStatus); images > 2+int(took/(10*time.Second)) {
					t.Errorf("%d calls of ImageStatus for one image", images)
				}

				r.set()
				took = r.within(time.Hour, "no sandbox", func() error {
					if removed := rt.CallCount(fake.RemovePodSandbox); removed < n {
						return unmet(func() string { return fmt.Sprint(n-removed, " sandboxes are left") })
					}
					return nil
				})
				got = calls.burst(rt)
				t.Logf("stopped in %v: %+v", took, got)
				if want := (callsOfABurst{lists: 4 + n/2, sandboxes: n, containers: n}); got.lists > want.lists || got.sandboxes > want.sandboxes || got.containers > want.containers {
					t.Errorf("%+v calls to stop %d pods, want at most %+v", got, n, want)
				}
				for _, m := range []fake.Method{fake.RunPodSandbox, fake.CreateContainer, fake.StartContainer, fake.StopContainer, fake.StopPodSandbox, fake.RemoveContainer, fake.RemovePodSandbox} {
					if got := rt.CallCount(m); got != n {
						t.Errorf("%d calls of %s for %d pods", got, m, n)
					}
				}
				<-time.After(20 * time.Second)                                                               // the remains of the pods go, too
				if got := calls.burst(rt); got.lists > 2*20+2*10+4 || got.sandboxes+got.containers > 1+n/4 { // the engine still reads the last events of the stops
					t.Errorf("%+v calls after the pods were gone", got)
				}
				r.empty(time.Minute)
			})
		})
	}
}
