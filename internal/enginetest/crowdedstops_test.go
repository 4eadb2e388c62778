package enginetest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/shutdown"
)

// manyPods returns n pods with one container of this name and this grace in seconds.
func manyPods(n int, container string, grace int64) (list []*v1.Pod) {
	for i := range n {
		p := newPod(fmt.Sprintf("%s-%02d", container, i), container)
		p.Spec.TerminationGracePeriodSeconds = ptr.To(grace)
		list = append(list, p)
	}
	return list
}

// running waits until all the pods run.
func (r *rig) running(list ...*v1.Pod) {
	r.t.Helper()
	for _, p := range list {
		r.phase(p.UID, v1.PodRunning, time.Minute)
	}
}

// signalled checks that each pod was told to stop within a second of since.
func (r *rig) signalled(since time.Time, list ...*v1.Pod) {
	r.t.Helper()
	for _, p := range list {
		told := r.runtime.Calls(fake.Match{Method: fake.StopContainer, PodUID: p.UID})
		switch {
		case len(told) == 0:
			r.t.Errorf("%s was never told to stop: %s", p.Name, r.explain(p.UID))
		case told[0].Start.Sub(since) > time.Second:
			r.t.Errorf("%s was told to stop after %v", p.Name, told[0].Start.Sub(since))
		}
	}
}

// nothingOf returns nil if neither the engine nor the runtime has anything of the pods.
func (r *rig) nothingOf(list ...*v1.Pod) error {
	r.t.Helper()
	sandboxes, err := r.runtime.ListPodSandbox(r.t.Context(), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, p := range list {
		if r.pod(p.UID) != nil || slices.ContainsFunc(sandboxes, func(s *runtimeapi.PodSandbox) bool { return s.GetMetadata().GetUid() == string(p.UID) }) {
			return fmt.Errorf("%s is left, %s", p.Name, r.explain(p.UID))
		}
	}
	return nil
}

// TestDeafPodsDelayNoStop: IN1. 40 pods that ignore SIGTERM and have a grace of 29 s are removed, or
// the node shuts down. Each pod is told to stop at once, and all have ended when their grace is over.
func TestDeafPodsDelayNoStop(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"removal", "shutdown"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, byContainer(map[string]fake.Script{"deaf": {IgnoreTERM: true}}), t.TempDir()).start()
				deaf, web := manyPods(40, "deaf", 29), newPod("web")
				r.set(append(deaf, web)...)
				r.running(append(deaf, web)...)
				told := time.Now()
				if how == "removal" {
					r.set()
				} else {
					report, err := r.engine.Shutdown(t.Context(), shutdown.Plan{Groups: []shutdown.Group{{Time: 30 * time.Second}}})
					if err != nil || len(report.Pods) != 41 {
						t.Errorf("%d pods in the report, %v", len(report.Pods), err)
					}
					for _, p := range report.Pods {
						if !p.Stopped {
							t.Errorf("%s did not stop: %s", p.Name, p.Problem)
						}
					}
				}
				r.within(35*time.Second, "all pods to end", func() error {
					for _, p := range deaf {
						if r.runtime.Running(p.UID, "deaf") > 0 {
							return fmt.Errorf("%s runs", p.Name)
						}
					}
					return nil
				})
				if took := time.Since(told); took > 35*time.Second {
					t.Errorf("it took %v", took)
				}
				r.signalled(told, append(deaf, web)...)
			})
		})
	}
}

// TestDeafPodsDelayNoEviction: IN1. While 20 removed pods use their hour of grace, memory runs out:
// the pod that uses too much is told to stop at once, and no other pod is. An unknown running pod
// is also killed, once.
func TestDeafPodsDelayNoEviction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(map[string]fake.Script{"deaf": {IgnoreTERM: true}})
		node, counted := &scarce{used: map[types.UID]uint64{}}, &counters{}
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) {
			c.Observe.MeterProvider = counted
			c.Eviction = &podwright.Eviction{Stats: node, Policy: eviction.Policy{
				Thresholds: []eviction.Threshold{{Signal: eviction.MemoryAvailable, Value: eviction.Value{Quantity: 100}}}, Transition: time.Minute,
			}}
		})
		node.rig = r
		r.start()
		deaf, others := manyPods(20, "deaf", 3600), []*v1.Pod{newPod("a"), newPod("b"), newPod("c")}
		hog, unknown := newPod("hog"), newPod("unknown")
		hog.Spec.TerminationGracePeriodSeconds = ptr.To[int64](3600)
		desired := append([]*v1.Pod{hog}, others...)
		r.set(append(deaf, append(desired, unknown)...)...)
		r.running(append(deaf, append(desired, unknown)...)...)
		r.set(append(deaf, desired...)...)
		r.within(time.Minute, "the pod that is to be unknown to be forgotten", func() error {
			return r.nothingOf(unknown)
		})
		r.set(desired...)
		<-time.After(2 * time.Second)
		makeAgain(t, rt, unknown.UID)
		r.within(10*time.Second, "the unknown pod to be killed", func() error {
			if rt.Running(unknown.UID, "main") > 0 {
				return errors.New("it runs")
			}
			return nil
		})
		node.use(hog.UID, 950)
		r.within(11*time.Second, "the pod that uses too much to be told to stop", func() error { // the manager looks every 10 s
			if len(rt.Calls(fake.Match{Method: fake.StopContainer, PodUID: hog.UID})) == 0 {
				return errors.New(r.explain(hog.UID))
			}
			return nil
		})
		<-time.After(10 * time.Minute)
		for _, p := range others {
			if q := r.pod(p.UID); q.Status.Phase != v1.PodRunning || len(rt.Calls(fake.Match{Method: fake.StopContainer, PodUID: p.UID})) > 0 {
				t.Errorf("%s is condemned: %+v", p.Name, q.Status)
			}
		}
		if n := counted.get("kubelet_orphaned_runtime_pods_total", ""); n != 1 {
			t.Errorf("the unknown pod was killed %d times", n)
		}
		for _, p := range deaf {
			if rt.Running(p.UID, "deaf") != 1 {
				t.Errorf("%s was cut short", p.Name)
			}
		}
	})
}

// makeAgain repeats, past the engine, the creation and start of the pod's sandbox and container in the runtime.
func makeAgain(t *testing.T, rt *fake.Runtime, uid types.UID) {
	t.Helper()
	request := func(m fake.Method) any { return rt.Calls(fake.Match{Method: m, PodUID: uid})[0].Request }
	run := request(fake.RunPodSandbox).(*runtimeapi.RunPodSandboxRequest)
	run.Config.Metadata.Attempt += 10
	sandbox, err := rt.RunPodSandbox(t.Context(), run.Config, "")
	if err != nil {
		t.Fatal(err)
	}
	create := request(fake.CreateContainer).(*runtimeapi.CreateContainerRequest)
	container, err := rt.CreateContainer(t.Context(), sandbox, create.Config, run.Config)
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.StartContainer(t.Context(), container); err != nil {
		t.Fatal(err)
	}
}

// hungRegistry never answers for images whose name begins with "hung", and the others at once.
func hungRegistry(ref string, _ *runtimeapi.AuthConfig) fake.Pull {
	if strings.Contains(ref, "hung") {
		return fake.Pull{Took: 10_000 * time.Hour}
	}
	return fake.Pull{}
}

// TestHungPullsDelayNoRestart: IN1. 40 pods wait for pulls that never end. Another pod exits: it
// restarts at its back-off, and its status is true meanwhile. New pods start. A deadline ends a pod
// although its pull hangs, a removed pod is gone at once, and the others say what they wait for.
func TestHungPullsDelayNoRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{
			Registry: hungRegistry,
			Script:   func(fake.Launch) fake.Script { return fake.Script{} },
		})
		r := newRig(t, rt, t.TempDir()).start()
		web, hung := newPod("web"), manyPods(40, "hung", 30)
		for i, p := range hung {
			p.Spec.Containers[0].Image = fmt.Sprintf("example.com/hung-%d:1", i)
		}
		late := withDeadline(hung[7].DeepCopy(), 300)
		hung[7] = late
		r.set(web)
		r.running(web)
		r.set(append(hung, web)...)
		<-time.After(time.Minute)

		present, quick := newPod("present"), newPod("quick")
		quick.Spec.Containers[0].Image = "example.com/quick:1"
		r.set(append(hung, web, present, quick)...)
		for _, p := range []*v1.Pod{present, quick} {
			if took := r.phase(p.UID, v1.PodRunning, time.Minute); took > 3*time.Second {
				t.Errorf("%s runs after %v", p.Name, took)
			}
		}

		// The first two starts come at once and after 10 s.
		for i, most := range []time.Duration{time.Second, 11 * time.Second} {
			if err := rt.Exit(web.UID, "main", fake.Exit{Code: 1}); err != nil {
				t.Fatal(err)
			}
			r.within(time.Second, "a status that says that web has ended", func() error {
				if c := r.pod(web.UID).Status.ContainerStatuses[0]; c.RestartCount == int32(i) && c.State.Running != nil {
					return fmt.Errorf("%+v", c)
				}
				return nil
			})
			if took := r.within(time.Minute, "web to run again", func() error {
				if rt.Running(web.UID, "main") == 0 {
					return errors.New(r.explain(web.UID))
				}
				return nil
			}); took > most {
				t.Errorf("restart %d after %v", i+1, took)
			}
			<-time.After(time.Second)
		}

		if e, _ := r.engine.Explain(hung[0].UID); e.Containers[0].Pull == nil || time.Since(e.Containers[0].Pull.Since) < time.Minute {
			t.Errorf("what the pod waits for is not told: %+v", e.Containers)
		}
		<-time.After(time.Until(r.pod(late.UID).Status.StartTime.Add(299 * time.Second)))
		r.phase(late.UID, v1.PodFailed, 3*time.Second)
		if s := r.pod(late.UID).Status; s.Reason != "DeadlineExceeded" || time.Since(s.StartTime.Time) > 302*time.Second {
			t.Errorf("the deadline: %s %s after %v", s.Reason, s.Message, time.Since(s.StartTime.Time))
		}
		r.set(web)
		if took := r.within(time.Minute, "the pods that hang to be gone", func() error {
			return r.nothingOf(hung...)
		}); took > 5*time.Second {
			t.Errorf("gone after %v", took)
		}
	})
}
