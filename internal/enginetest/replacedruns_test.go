package enginetest_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
)

// jobRuntime runs a job of ten minutes that ends well when it is stopped. As long as it is sick,
// probes of runs before the given one fail.
func jobRuntime(sick *atomic.Bool, healthy uint32) *fake.Runtime {
	return fake.New(fake.Options{Script: func(l fake.Launch) fake.Script {
		return fake.Script{
			OnTERM: fake.Exit{After: time.Second}, Exit: &fake.Exit{After: 10 * time.Minute},
			Exec: func(fake.Exec) fake.ExecResult {
				if sick.Load() && l.Attempt < healthy {
					return fake.ExecResult{Code: 1}
				}
				return fake.ExecResult{}
			},
		}
	}})
}

// probedJob is a pod for a job with a liveness probe.
func probedJob(policy v1.RestartPolicy) *v1.Pod {
	p := sized(withPolicy(newPod("job"), policy), "100m", "64Mi")
	c := &p.Spec.Containers[0]
	c.LivenessProbe = check("live")
	c.ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
	return p
}

// runningJob is a machine whose agent runs the pod of a job.
func runningJob(t *testing.T, pod *v1.Pod, healthy uint32) (sick *atomic.Bool, n *host, r *rig) {
	sick = &atomic.Bool{}
	n = newHost(t, jobRuntime(sick, healthy))
	r = n.agent()
	r.set(pod)
	r.phase(pod.UID, v1.PodRunning, time.Minute)
	return sick, n, r
}

// stopReasons are reasons of the engine's own to stop a container in order to start it again.
func stopReasons(sick *atomic.Bool) map[string]func(p *v1.Pod) *v1.Pod {
	return map[string]func(p *v1.Pod) *v1.Pod{
		"liveness": func(p *v1.Pod) *v1.Pod {
			sick.Store(true)
			return p
		},
		"image": func(p *v1.Pod) *v1.Pod {
			p = p.DeepCopy()
			p.Spec.Containers[0].Image = "app:2"
			return p
		},
		"resize": func(p *v1.Pod) *v1.Pod {
			p = p.DeepCopy()
			p.Spec.Containers[0].Resources.Limits[v1.ResourceMemory] = resource.MustParse("128Mi")
			return p
		},
		"sandbox": func(p *v1.Pod) *v1.Pod {
			p = p.DeepCopy()
			p.Spec.HostNetwork = true
			return p
		},
	}
}

// TestStoppedRunIsReplaced: 6.12: a job that was stopped in order to be started again is not done, although it ended well: not while
// the next start fails, and not for the next agent. It is once it ends by itself.
func TestStoppedRunIsReplaced(t *testing.T) {
	for reason := range stopReasons(nil) {
		for _, trouble := range []string{"no container", "killed agent", "full disk", "hung disk"} {
			for _, policy := range []v1.RestartPolicy{v1.RestartPolicyOnFailure, v1.RestartPolicyNever} {
				if policy == v1.RestartPolicyNever && reason != "image" { // the rest is the end of a container that never runs twice
					continue
				}
				t.Run(fmt.Sprintf("%s, %s, %s", reason, trouble, policy), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { stoppedRunIsReplaced(t, reason, trouble, policy) })
				})
			}
		}
	}
}

func stoppedRunIsReplaced(t *testing.T, reason, trouble string, policy v1.RestartPolicy) {
	killed := trouble == "killed agent"
	pod := probedJob(policy)
	sick, n, r := runningJob(t, pod, 1)
	<-time.After(30 * time.Second)
	effect := fake.Effect{Err: errors.New("no room")}
	if killed {
		effect = fake.Effect{Hang: true}
	}
	answers := make(chan struct{})
	switch trouble {
	case "full disk":
		n.setFull(true)
	case "hung disk":
		n.setFullWhile(func() bool {
			<-answers
			return false
		})
	}
	makes := n.rt.Inject(fake.Fault{Match: fake.Match{Method: fake.CreateContainer}, Effect: effect})
	pod = stopReasons(sick)[reason](pod)
	r.set(pod)
	r.within(time.Minute, "a stop", func() error {
		if n.rt.Running(pod.UID, "main") > 0 || n.rt.CallCount(fake.CreateContainer) < 2 {
			return errors.New(r.explain(pod.UID))
		}
		return nil
	})
	<-time.After(2 * time.Minute)
	if st := r.pod(pod.UID).Status; !killed && (st.Phase != v1.PodRunning || st.ContainerStatuses[0].State.Waiting == nil || st.ContainerStatuses[0].State.Waiting.Reason != "CreateContainerError") {
		t.Errorf("while nothing can be created: %+v", st)
	}
	if killed {
		n.kill(r)
		makes()
		makes = n.rt.Inject(fake.Fault{Match: fake.Match{Method: fake.CreateContainer}, Effect: fake.Effect{Err: errors.New("no room")}})
		r = n.agent()
		r.set(pod)
		<-time.After(time.Minute)
		if st := r.pod(pod.UID).Status; st.Phase != v1.PodRunning || st.ContainerStatuses[0].State.Waiting == nil {
			t.Errorf("the next agent says %+v", st)
		}
	}
	makes()
	close(answers)
	n.setFull(false)
	r.phase(pod.UID, v1.PodSucceeded, time.Hour)
	<-time.After(time.Hour)
	if got, want := r.restarts(pod.UID), "main 2/1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := r.phasesOf(pod.UID); got != "[Running Succeeded]" {
		t.Errorf("phases %s", got)
	}
	if e, _ := r.engine.Explain(pod.UID); e.Restart != "" {
		t.Errorf("a restart without a request: %s", e.Restart)
	}
}

// TestFailedProbeOfJobBacksOff: 6.12, 17.1: a job that fails its probe time and again is no success while it waits for its next start.
func TestFailedProbeOfJobBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sick atomic.Bool
		sick.Store(true)
		r := newRig(t, jobRuntime(&sick, 5), t.TempDir()).start()
		pod := probedJob(v1.RestartPolicyOnFailure)
		r.set(pod)
		r.phase(pod.UID, v1.PodSucceeded, time.Hour)
		if got, want := r.restarts(pod.UID), "main 6/5"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if got := r.phasesOf(pod.UID); got != "[Running Succeeded]" || r.events.count("job BackOff") == 0 {
			t.Errorf("phases %s, %d events of a back-off", got, r.events.count("job BackOff"))
		}
	})
}

// TestRunThatGoesOnMayEnd: 6.12: if the reason for a stop has gone before the runtime could stop the job, its end counts: it is not
// run again, neither by this agent nor by the next one.
func TestRunThatGoesOnMayEnd(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed %v", killed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pod := probedJob(v1.RestartPolicyOnFailure)
				sick, n, r := runningJob(t, pod, 1)
				stops := n.rt.Inject(fake.Fault{Match: fake.Match{Method: fake.StopContainer}, Effect: fake.Effect{Err: runtime.ErrUnavailable}})
				changed := stopReasons(sick)["image"](pod)
				r.set(changed)
				<-time.After(time.Minute)
				if rec := n.records()[pod.UID]; rec == nil || rec.Restarts == nil || len(rec.Restarts.Own) != 1 {
					t.Fatalf("the record: %+v", rec)
				}
				if killed {
					n.kill(r)
					r = n.agent()
				}
				r.set(pod)
				<-time.After(time.Minute)
				stops()
				r.phase(pod.UID, v1.PodSucceeded, time.Hour)
				<-time.After(time.Hour)
				if got, want := r.restarts(pod.UID), "main 1/0"; got != want {
					t.Errorf("%s, want %s", got, want)
				}
			})
		})
	}
}

// TestStoppedRunWithoutSandbox: 6.12, 6.2a: a container of policy Never was stopped for another image, and before the next one could be
// created the pod loses its sandbox, or the machine is booted again. It is started in a new sandbox; the pod does not wait without end.
func TestStoppedRunWithoutSandbox(t *testing.T) {
	for _, booted := range []bool{false, true} {
		t.Run(fmt.Sprintf("booted %v", booted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pod := probedJob(v1.RestartPolicyNever)
				sick, n, r := runningJob(t, pod, 0)
				makes := n.rt.Inject(fake.Fault{Match: fake.Match{Method: fake.CreateContainer}, Effect: fake.Effect{Err: errors.New("no room")}})
				pod = stopReasons(sick)["image"](pod)
				r.set(pod)
				<-time.After(time.Minute)
				if booted {
					n.kill(r)
					n.rt.Reboot()
					n.boot = "boot-2"
					r = n.agent()
					r.set(pod)
				} else if sandboxes, err := n.rt.ListPodSandbox(t.Context(), nil); err != nil || n.rt.FailSandbox(sandboxes[0].Id) != nil {
					t.Fatal("no sandbox to fail")
				}
				<-time.After(time.Minute)
				makes()
				r.phase(pod.UID, v1.PodSucceeded, time.Hour)
				if got, want := r.restarts(pod.UID), "main 2/1"; got != want {
					t.Errorf("%s, want %s", got, want)
				}
			})
		})
	}
}

// TestInitHasRunWithoutItsApp: 6.2a: a pod with policy Never loses its sandbox when its init container has run and the image of
// its app container is still being pulled. It gets another sandbox and runs; the pod does not wait without end.
func TestInitHasRunWithoutItsApp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{Script: func(fake.Launch) fake.Script { return fake.Script{Exit: &fake.Exit{After: time.Second}} }})
		pulls := rt.Inject(fake.Fault{Match: fake.Match{Method: fake.PullImage, Func: func(c fake.Call) bool {
			return c.Request.(*runtimeapi.PullImageRequest).GetImage().GetImage() == "slow:1"
		}}, Effect: fake.Effect{Err: errors.New("the registry is away")}})
		r := newRig(t, rt, t.TempDir()).start()
		pod := newPod("job")
		pod.Spec.RestartPolicy = v1.RestartPolicyNever
		pod.Spec.InitContainers = []v1.Container{{Name: "init", Image: "app:1"}}
		pod.Spec.Containers[0].Image = "slow:1"
		r.set(pod)
		<-time.After(time.Minute)
		if sandboxes, err := rt.ListPodSandbox(t.Context(), nil); err != nil || rt.FailSandbox(sandboxes[0].Id) != nil {
			t.Fatal("no sandbox to fail")
		}
		<-time.After(time.Minute)
		pulls()
		r.phase(pod.UID, v1.PodSucceeded, 5*time.Minute)
		if init, main := rt.Facts(pod.UID, "init").Started, rt.Facts(pod.UID, "main").Started; init != 2 || main != 1 {
			t.Errorf("init ran %d times, main %d times", init, main)
		}
	})
}

// TestRunThatStopsForGood: 6.12: a container of policy Never that could not be stopped for another image, and then fails its probe
// when the image is the old one again, ends for good.
func TestRunThatStopsForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := probedJob(v1.RestartPolicyNever)
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: "other", Image: "app:1"})
		sick, n, r := runningJob(t, pod, 1)
		stops := n.rt.Inject(fake.Fault{Match: fake.Match{Method: fake.StopContainer}, Effect: fake.Effect{Err: runtime.ErrUnavailable}})
		r.set(stopReasons(sick)["image"](pod))
		sick.Store(true)
		<-time.After(time.Minute)
		stops()
		r.set(pod)
		r.phase(pod.UID, v1.PodSucceeded, time.Hour)
		if got, want := r.restarts(pod.UID), "main 1/0, other 1/0"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// TestStoppedRunKilledAtEveryPoint: 6.12: the agent is killed before and after each operation on the disk while a job gets another image. The job
// runs to its own end with the new image, and nothing takes the end of the stopped run for it.
func TestStoppedRunKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	points := 0
	synctest.Test(t, func(t *testing.T) { points = stoppedRunKilledAt(t, 0) })
	if points < 4 {
		t.Fatalf("only %d points", points)
	}
	for at := 1; at <= points; at++ {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { stoppedRunKilledAt(t, at) })
		})
	}
}

func stoppedRunKilledAt(t *testing.T, at int) (points int) {
	pod := probedJob(v1.RestartPolicyOnFailure)
	sick, n, r := runningJob(t, pod, 0)
	<-time.After(10 * time.Second)
	n.points, n.killAt = 0, at
	pod = stopReasons(sick)["image"](pod)
	r.set(pod)
	select {
	case <-n.killed:
	case <-time.After(30 * time.Second):
	}
	n.kill(r)
	points, n.killAt = n.points, 0
	r = n.agent()
	r.set(pod)
	r.phase(pod.UID, v1.PodSucceeded, time.Hour)
	if got, want := r.restarts(pod.UID), "main 2/1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := r.phasesOf(pod.UID); got != "[Running Succeeded]" {
		t.Errorf("phases %s", got)
	}
	return points
}

// TestFailedPostStartOfJob: 15.1, 6.12: a job whose postStart hook fails is stopped and started again, although it ends with 0 when it is
// stopped, also by the next agent. One that has ended by itself before its hook failed is done, and one of policy Never is not run twice.
func TestFailedPostStartOfJob(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy v1.RestartPolicy
		ends   time.Duration
		want   string
	}{
		{"stopped", v1.RestartPolicyOnFailure, 10 * time.Minute, "main 2/1"},
		{"killed agent", v1.RestartPolicyOnFailure, 10 * time.Minute, "main 2/1"},
		{"ended", v1.RestartPolicyOnFailure, time.Second, "main 1/0"},
		{"never", v1.RestartPolicyNever, 10 * time.Minute, "main 1/0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := fake.New(fake.Options{Script: func(l fake.Launch) fake.Script {
					return fake.Script{
						OnTERM: fake.Exit{After: time.Second}, Exit: &fake.Exit{After: tc.ends},
						Exec: func(fake.Exec) fake.ExecResult {
							return fake.ExecResult{Took: 2 * time.Second, Code: 1 - int(min(l.Attempt, 1))}
						},
					}
				}})
				pod := withPolicy(newPod("job"), tc.policy)
				pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"hook"}}}}
				n := newHost(t, rt)
				r := n.agent()
				if tc.name == "killed agent" {
					r = killedInPostStartStop(t, n, r, pod)
				}
				r.set(pod)
				r.phase(pod.UID, v1.PodSucceeded, time.Hour)
				<-time.After(time.Hour)
				if got := r.restarts(pod.UID); got != tc.want {
					t.Errorf("%s, want %s", got, tc.want)
				}
				// The sink may be told of the end alone: it comes within a moment of the first status.
				if got := r.phasesOf(pod.UID); got != "[Running Succeeded]" && got != "[Succeeded]" {
					t.Errorf("phases %s", got)
				}
			})
		})
	}
}

// killedInPostStartStop kills the agent when the stopped container has ended and the next one has not been created.
func killedInPostStartStop(t *testing.T, n *host, r *rig, pod *v1.Pod) *rig {
	t.Helper()
	r.set(pod)
	<-time.After(time.Second) // its hook runs
	makes := n.rt.Inject(fake.Fault{Match: fake.Match{Method: fake.CreateContainer}, Effect: fake.Effect{Hang: true}})
	r.within(time.Minute, "a stop", func() error {
		if n.rt.Running(pod.UID, "main") > 0 || n.rt.CallCount(fake.CreateContainer) < 2 {
			return errors.New(r.explain(pod.UID))
		}
		return nil
	})
	n.kill(r)
	makes()
	return n.agent()
}
