package pods_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	googleproto "google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/proberesult"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// initialized returns a running pod whose init container has ended.
func initialized(t *testing.T) (*world, *v1.Pod) {
	t.Helper()
	w := newWorld(t, func(l fake.Launch) fake.Script {
		if l.Container == "init" {
			return fake.Script{Exit: &fake.Exit{After: second}}
		}
		return fake.Script{}
	})
	pod := newPod(func(p *v1.Pod) { p.Spec.InitContainers = []v1.Container{container("init")} })
	w.syncAll(pod)
	pass(2 * second)
	w.syncAll(pod)
	return w, pod
}

// spec/runtime.md 5.3, 6.2: a dead sandbox is replaced, init runs again.
func TestSandboxReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, pod := initialized(t)
		w.wantState(pod, "init:exited app:running")
		if err := w.fake.FailSandbox(w.read(pod).Sandboxes[0].ID); err != nil {
			t.Fatal(err)
		}
		if !pods.NeedsSandbox(pod, w.read(pod)) {
			t.Error("5.3: NeedsSandbox is false")
		}
		w.syncAll(pod)
		w.wantState(pod, "init:running app:exited")
		pass(2 * second)
		w.syncAll(pod)
		w.wantState(pod, "init:exited app:running")
		status := w.read(pod)
		if status.Sandboxes[0].Attempt != 1 || status.Container("app").RestartCount != 1 {
			t.Errorf("5.3: attempt %d, restarts %d", status.Sandboxes[0].Attempt, status.Container("app").RestartCount)
		}
		if !w.events.has("Normal SandboxChanged") {
			t.Error("22.2: no SandboxChanged event")
		}
		if err := w.fake.Doubled(); err != nil {
			t.Error(err)
		}
	})
}

// A restarted engine finds everything as it was and touches nothing.
func TestEngineRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		pod := newPod(func(p *v1.Pod) { p.Spec.InitContainers = []v1.Container{sidecar("side")} })
		for range 3 {
			w.syncAll(pod)
		}
		w.restart()
		if r := w.sync(pod); r.Acted || len(r.Actions) != 0 || r.Err != nil {
			t.Errorf("2.9: %+v", r)
		}
	})
}

type probes map[string][2]pods.ProbeResult

type probeSource struct {
	view func() *runtime.PodStatus
	by   probes
}

func (p probeSource) ProbeResults(id runtime.ContainerID) (startup, liveness pods.ProbeResult) {
	for name, r := range p.by {
		if p.view().Container(name).ID == id {
			return r[0], r[1]
		}
	}
	return proberesult.Unknown, proberesult.Unknown
}

// spec/runtime.md 6.7, 16.1: a failed probe kills with the probe's own grace, and
// the container is started again in the same sync.
func TestLivenessFailure(t *testing.T) {
	for _, tc := range []struct {
		name     string
		deletion *int64
		want     string
	}{{"probe grace", nil, "app 77"}, {"edge 13: deletion grace wins", ptr.To[int64](60), "app 60"}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				results := probes{}
				var w *world
				pod := newPod(func(p *v1.Pod) {
					p.Spec.Containers[0].LivenessProbe = &v1.Probe{TerminationGracePeriodSeconds: ptr.To[int64](77)}
					p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
					p.DeletionGracePeriodSeconds = tc.deletion
				})
				w = newWorld(t, nil, func(o *pods.Options) {
					o.Probes = probeSource{by: results, view: func() *runtime.PodStatus { return w.read(pod) }}
				})
				w.syncAll(pod)
				results["app"] = [2]pods.ProbeResult{proberesult.Unknown, proberesult.Failure}
				if r := w.sync(pod); r.Err != nil || len(starts(r)) != 1 {
					t.Fatalf("%+v", r)
				}
				delete(results, "app")
				if got := w.stops(); !slices.Equal(got, []string{tc.want}) {
					t.Errorf("16.1: stops %v, want %s", got, tc.want)
				}
				w.wantState(pod, "app:running")
				if !w.events.has("Normal Killing spec.containers{app} Container app failed its liveness probe, will be restarted") {
					t.Errorf("16.3: %v", w.events.list())
				}
			})
		})
	}
}

// spec/runtime.md 6.8, 16.1 (3): the last container of a pod that is never restarted has the grace of the
// probe that failed, although the whole pod stops; its sidecar has the pod's.
func TestLastContainerKeepsGraceOfItsProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		results := probes{}
		var w *world
		pod := newPod(func(p *v1.Pod) {
			p.Spec.RestartPolicy = v1.RestartPolicyNever
			p.Spec.InitContainers = []v1.Container{sidecar("side")}
			p.Spec.Containers[0].LivenessProbe = &v1.Probe{TerminationGracePeriodSeconds: ptr.To[int64](5)}
			p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600)
		})
		w = newWorld(t, nil, func(o *pods.Options) {
			o.Probes = probeSource{by: results, view: func() *runtime.PodStatus { return w.read(pod) }}
		})
		w.syncAll(pod)
		results["app"] = [2]pods.ProbeResult{proberesult.Unknown, proberesult.Failure}
		w.syncAll(pod)
		if got := w.stops(); !slices.Equal(got, []string{"app 5", "side 600"}) {
			t.Errorf("16.1: stops %v", got)
		}
		if !w.events.has("Normal Killing spec.containers{app} Container app failed its liveness probe") ||
			!w.events.has("Normal Killing spec.initContainers{side} Stopping container side") {
			t.Errorf("16.3: %v", w.events.list())
		}
	})
}

// spec/runtime.md 6.8: the exit of the last container decides whether the pod stops, so that a rule brings it back
// in its sandbox.
func TestLastContainerRestartsInItsSandboxByItsRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		results := probes{}
		var w *world
		pod := newPod(func(p *v1.Pod) {
			p.Spec.RestartPolicy = v1.RestartPolicyNever
			p.Spec.InitContainers = []v1.Container{container("init")}
			app := &p.Spec.Containers[0]
			app.LivenessProbe = &v1.Probe{TerminationGracePeriodSeconds: ptr.To[int64](5)}
			app.RestartPolicy = ptr.To(v1.ContainerRestartPolicyNever)
			app.RestartPolicyRules = []v1.ContainerRestartRule{{
				Action:    v1.ContainerRestartRuleActionRestart,
				ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpNotIn, Values: []int32{0}},
			}}
		})
		w = newWorld(t, func(l fake.Launch) fake.Script {
			if l.Container == "init" {
				return fake.Script{Exit: &fake.Exit{After: second}}
			}
			return fake.Script{OnTERM: fake.Exit{Code: 143}}
		}, func(o *pods.Options) {
			o.Probes = probeSource{by: results, view: func() *runtime.PodStatus { return w.read(pod) }}
		})
		w.syncAll(pod)
		pass(2 * second)
		w.syncAll(pod)
		results["app"] = [2]pods.ProbeResult{proberesult.Unknown, proberesult.Failure}
		w.sync(pod)
		delete(results, "app")
		w.syncAll(pod)
		w.wantState(pod, "init:exited app:running")
		if got, want := w.calls(fake.RunPodSandbox, fake.StartContainer, fake.StopContainer, fake.StopPodSandbox),
			[]string{"RunPodSandbox", "StartContainer init", "StartContainer app", "StopContainer app", "StartContainer app"}; !slices.Equal(got, want) {
			t.Errorf("6.8: calls %q, want %q", got, want)
		}
		if got := w.stops(); !slices.Equal(got, []string{"app 5"}) {
			t.Errorf("16.1: stops %v", got)
		}
	})
}

// spec/runtime.md 6.9, 17.7: everything starts again, sandbox and count stay; a
// loop of resets is delayed.
func TestRestartAllContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(l fake.Launch) fake.Script {
			switch l.Container {
			case "init":
				return fake.Script{Exit: &fake.Exit{After: second}}
			case "trigger":
				return fake.Script{Exit: &fake.Exit{After: 3 * second, Code: 9}}
			}
			return fake.Script{}
		})
		pod := newPod(func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{container("init")}
			trigger := container("trigger")
			trigger.RestartPolicy = ptr.To(v1.ContainerRestartPolicyNever)
			trigger.RestartPolicyRules = []v1.ContainerRestartRule{{
				Action: v1.ContainerRestartRuleActionRestartAllContainers,
				ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
					Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{9},
				},
			}}
			p.Spec.Containers = append(p.Spec.Containers, trigger)
			p.Spec.Containers[0].Lifecycle = preStop(v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 50}})
			p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](60)
		})
		var resets []time.Duration
		var delays []string
		began := time.Now()
		for time.Since(began) < 2*time.Minute {
			r := w.sync(pod)
			if delay, _, held := strings.Cut(w.m.WaitingReasons(pod.UID)["init"].Message, " restarting"); held && !slices.Contains(delays, delay) {
				delays = append(delays, delay)
			}
			if r.Again {
				resets = append(resets, time.Since(began))
				continue
			}
			if r.Acted {
				continue
			}
			pass(second)
		}
		// A round is init 1 s and trigger 3 s; the first comes at once, the
		// next after 10, 20, 40 s from the trigger's exit.
		want := []time.Duration{4 * second, 8 * second, 22 * second, 46 * second, 90 * second}
		if !slices.Equal(resets, want) {
			t.Errorf("17.7: resets at %v, want %v", resets, want)
		}
		if want := []string{"back-off 10s", "back-off 20s", "back-off 40s", "back-off 1m20s"}; !slices.Equal(delays, want) {
			t.Errorf("17.7: it waits with %q, want %q", delays, want)
		}
		for _, s := range w.stops() {
			if s != "app 2" {
				t.Errorf("6.9: stop %s", s)
			}
		}
		if n := w.fake.CallCount(fake.RunPodSandbox); n != 1 {
			t.Errorf("6.9: %d sandboxes", n)
		}
		if err := w.fake.Doubled(); err != nil {
			t.Error(err)
		}
	})
}

// spec/runtime.md 15.1: a failed postStart kills the container.
func TestPostStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs logSink
		w := newWorld(t, func(fake.Launch) fake.Script {
			return fake.Script{Exec: func(e fake.Exec) fake.ExecResult {
				return fake.ExecResult{Took: 2 * second, Code: 3, Stdout: "the secret", Stderr: "the secret"}
			}}
		}, func(o *pods.Options) { o.Logger = logs.logger() })
		pod := newPod(func(p *v1.Pod) {
			p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{
				PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"hello"}}},
			}
		})
		r := w.sync(pod)
		if len(starts(r)) != 1 || starts(r)[0].Reason != "PostStartHookError" {
			t.Fatalf("%+v", starts(r))
		}
		w.wantState(pod, "app:exited")
		if !w.events.has("Warning FailedPostStartHook spec.containers{app}") {
			t.Errorf("events %v", w.events.list())
		}
		if strings.Contains(fmt.Sprint(w.events.list(), r, logs.text()), "the secret") {
			t.Error("15.1: the hook's output is told")
		}
		// The event does not say why, and the waiting reason is soon CrashLoopBackOff.
		if !strings.Contains(logs.text(), `"PostStart hook failed"`) || !strings.Contains(logs.text(), "command exited with code 3") {
			t.Errorf("the log does not say why the hook failed:\n%s", logs.text())
		}
		// spec/runtime.md 15: tcpSocket is no hook.
		pod = newPod(func(p *v1.Pod) {
			p.UID = "uid-2"
			p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{TCPSocket: &v1.TCPSocketAction{}}}
		})
		if r := w.sync(pod); starts(r)[0].Reason != "PostStartHookError" {
			t.Errorf("15: %+v", starts(r))
		}
	})
}

// spec/runtime.md 7.1: a sandbox that failed because the pod is to end is no
// event; any other failure is.
func TestSandboxFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.RunPodSandbox}, Times: 1, Effect: fake.Effect{Hang: true}})
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		if r := w.m.SyncPod(ctx, newPod(), nil); !errors.Is(r.Err, context.DeadlineExceeded) || w.events.has("Warning") {
			t.Errorf("7.1: err %v, events %v", r.Err, w.events.list())
		}
		w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.RunPodSandbox}, Times: 1, Effect: fake.Effect{Err: runtime.ErrUnavailable}})
		r := w.m.SyncPod(t.Context(), newPod(), nil)
		if !errors.Is(r.Err, runtime.ErrUnavailable) || r.Actions[0].Reason != "CreatePodSandboxError" || len(starts(r)) != 0 {
			t.Errorf("%+v", r)
		}
		if !w.events.has("Warning FailedCreatePodSandBox") {
			t.Errorf("22.2: events %v", w.events.list())
		}
	})
}

// A create whose answer was lost is taken over, not repeated; a name that is reserved by a
// create that is still under way is waited for (RT8).
func TestUnansweredCreates(t *testing.T) {
	reserved := errors.New(`rpc error: code = Unknown desc = failed to reserve name: name "x" is reserved for "y"`)
	for _, tc := range []struct {
		name   string
		method fake.Method
		effect fake.Effect
		// creates is how many calls of method are made.
		creates int
	}{
		{"sandbox done, deadline", fake.RunPodSandbox, fake.Effect{Err: runtime.ErrDeadline, Done: true}, 1},
		{"sandbox name taken", fake.RunPodSandbox, fake.Effect{Err: runtime.ErrAlreadyExists}, 2},
		{"sandbox name taken, in words", fake.RunPodSandbox, fake.Effect{Err: reserved}, 2},
		{"container done, deadline", fake.CreateContainer, fake.Effect{Err: runtime.ErrDeadline, Done: true}, 1},
		{"container name taken", fake.CreateContainer, fake.Effect{Err: runtime.ErrAlreadyExists}, 2},
		{"container name taken, in words", fake.CreateContainer, fake.Effect{Err: reserved}, 2},
		{"start done, deadline", fake.StartContainer, fake.Effect{Err: runtime.ErrDeadline, Done: true}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				w.fake.Inject(fake.Fault{Match: fake.Match{Method: tc.method}, Times: 1, Effect: tc.effect})
				pod := newPod()
				r := w.sync(pod)
				if waits := r.Err != nil && strings.Contains(r.Err.Error(), "its outcome is awaited"); waits != (tc.creates > 1) || !waits && r.Err != nil {
					t.Errorf("err %v", r.Err)
				}
				if r.Err != nil {
					<-time.After(time.Second)
					w.syncAll(pod)
				}
				w.wantState(pod, "app:running")
				status := w.read(pod)
				for _, c := range status.Containers {
					if c.RestartCount != 0 {
						t.Errorf("restart count %d", c.RestartCount)
					}
				}
				if len(status.Sandboxes) != 1 || len(status.Containers) != 1 || w.fake.CallCount(tc.method) != tc.creates {
					t.Errorf("%d sandboxes, %d containers after %d calls",
						len(status.Sandboxes), len(status.Containers), w.fake.CallCount(tc.method))
				}
				if r := w.sync(pod); r.Acted {
					t.Errorf("not at rest: %+v", r)
				}
			})
		})
	}
}

// What an earlier agent's create, of which the answer was lost with that agent, makes while its successor starts the
// container is replaced: its environment may be out of date.
func TestContainerOfAnEarlierAgentIsNotTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		pod, old := newPod(), ""
		w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.CreateContainer, Func: func(c fake.Call) bool {
			if old != "" {
				return false
			}
			old = "under way"
			r := googleproto.CloneOf(c.Request.(*runtimeapi.CreateContainerRequest))
			r.Config.Envs = append(r.Config.Envs, &runtimeapi.KeyValue{Key: "OF", Value: []byte("yesterday")})
			id, err := w.fake.CreateContainer(t.Context(), r.GetPodSandboxId(), r.GetConfig(), r.GetSandboxConfig())
			if err != nil {
				t.Error(err)
			}
			old = id
			return false
		}}})
		w.syncAll(pod)
		w.wantState(pod, "app:running")
		if now := w.read(pod).Containers; len(now) != 1 || now[0].ID.ID == old || now[0].RestartCount != 0 {
			t.Errorf("%d containers, the newest is %+v; the earlier agent made %s", len(now), now[0], old)
		}
	})
}

const nameWait = 10 * time.Second

// A name that stays taken, by nothing that the runtime lists, is given up after 10 s in
// favor of the next one (RT8).
func TestNameTakenForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		attempt := func(c fake.Call) uint32 {
			switch r := c.Request.(type) {
			case *runtimeapi.RunPodSandboxRequest:
				return r.GetConfig().GetMetadata().GetAttempt()
			case *runtimeapi.CreateContainerRequest:
				return r.GetConfig().GetMetadata().GetAttempt()
			}
			return 99
		}
		w.fake.Inject(fake.Fault{
			Match:  fake.Match{Func: func(c fake.Call) bool { return attempt(c) < 2 }},
			Effect: fake.Effect{Err: runtime.ErrAlreadyExists},
		})
		pod := newPod()
		began, seen := time.Now(), map[fake.Method]uint32{}
		for time.Since(began) < 90*time.Second && len(w.read(pod).Containers) == 0 {
			w.sync(pod)
			for _, method := range []fake.Method{fake.RunPodSandbox, fake.CreateContainer} {
				calls := w.fake.Calls(fake.Match{Method: method})
				if len(calls) == 0 {
					continue
				}
				if n := attempt(calls[len(calls)-1]); n > seen[method] {
					seen[method] = n
					if took := time.Since(began); took < time.Duration(n)*nameWait {
						t.Errorf("%s has the number %d after %s", method, n, took)
					}
				}
			}
			<-time.After(time.Second)
		}
		w.syncAll(pod)
		w.wantState(pod, "app:running")
		if got := w.read(pod).Sandboxes[0].Attempt; got != 2 {
			t.Errorf("attempt %d", got)
		}
	})
}

// 19.3: a container that has another number than its restart count, because its own was reserved, is in the
// way of the next one. Its end is stored before it is removed.
func TestEndIsStoredBeforeItsNumberIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stored []string
		var refused error
		w := newWorld(t, func(fake.Launch) fake.Script { return fake.Script{Exit: &fake.Exit{After: time.Minute, Code: 3}} }, func(o *pods.Options) {
			o.BeforeRemove = func(_ context.Context, _ types.UID, name string, id runtime.ContainerID) error {
				stored = append(stored, name+" "+id.String())
				return refused
			}
		})
		w.fake.Inject(fake.Fault{
			Match: fake.Match{Method: fake.CreateContainer, Func: func(c fake.Call) bool {
				return c.Request.(*runtimeapi.CreateContainerRequest).GetConfig().GetMetadata().GetAttempt() == 0
			}},
			Effect: fake.Effect{Err: runtime.ErrAlreadyExists},
		})
		pod := newPod()
		for range 30 {
			w.sync(pod)
			if len(w.read(pod).Containers) > 0 {
				break
			}
			pass(second)
		}
		first := w.read(pod).Container("app")
		if first == nil || first.RestartCount != 0 {
			t.Fatalf("first run: %+v", first)
		}
		pass(time.Minute)
		refused = errors.New("disk full")
		if r := w.sync(pod); !errors.Is(r.Err, refused) {
			t.Errorf("CK3: err %v", r.Err)
		}
		w.wantState(pod, "app:exited")
		refused = nil
		for range 30 {
			pass(second)
			w.sync(pod)
			if w.state(pod) == "app:running" {
				break
			}
		}
		if now := w.read(pod).Container("app"); now.ID == first.ID || now.RestartCount != 1 {
			t.Errorf("second run: %+v", now)
		}
		if want := "app " + first.ID.String(); len(stored) != 2 || stored[0] != want || stored[1] != want {
			t.Errorf("19.3: stored %v, want twice %s", stored, want)
		}
	})
}

// A container that was created and could not be started makes room for the next.
func TestFailedStartLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.StartContainer}, Times: 2, Effect: fake.Effect{Err: runtime.ErrUnavailable}})
		pod := newPod()
		r := w.syncAll(pod) // two attempts at once, the next after a pause
		<-time.After(time.Until(r.RetryAt))
		w.syncAll(pod)
		if got := w.read(pod).Containers; len(got) != 1 || got[0].State != runtime.Running {
			t.Errorf("%d records", len(got))
		}
	})
}

// A create that takes effect after its caller gave up does not stay in the way.
func TestLateCreate(t *testing.T) {
	for _, method := range []fake.Method{fake.RunPodSandbox, fake.CreateContainer} {
		for _, late := range []time.Duration{0, 3 * second} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				pod := newPod()
				w.fake.Inject(fake.Fault{Match: fake.Match{Method: method}, Times: 1, Effect: fake.Effect{Hang: true, Done: true, Late: late}})
				ctx, cancel := context.WithTimeout(t.Context(), second)
				defer cancel()
				if r := w.m.SyncPod(ctx, pod, w.read(pod)); r.Err == nil {
					t.Error("no error")
				}
				for range 20 {
					w.sync(pod)
					pass(second)
				}
				w.syncAll(pod)
				w.wantState(pod, "app:running")
				if err := w.fake.Doubled(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A definition that changed restarts the container, whatever its policy.
func TestImageChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		pod := newPod(func(p *v1.Pod) { p.Spec.RestartPolicy = v1.RestartPolicyNever })
		w.syncAll(pod)
		pod.Spec.Containers[0].Image = "example.com/app:2"
		w.syncAll(pod)
		c := w.read(pod).Container("app")
		if c.State != runtime.Running || c.RestartCount != 1 {
			t.Errorf("edge 6: %v count %d", c.State, c.RestartCount)
		}
	})
}

// spec/runtime.md 6.10, 11.5: a pod on the host network has the node's address.
func TestHostNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var env map[string]string
		w := newWorld(t, func(l fake.Launch) fake.Script {
			env = map[string]string{}
			for _, kv := range l.Config.GetEnvs() {
				env[kv.GetKey()] = string(kv.GetValue())
			}
			return fake.Script{}
		})
		pod := newPod(func(p *v1.Pod) {
			p.Spec.HostNetwork = true
			for _, f := range []string{"status.podIP", "status.hostIP", "metadata.uid"} {
				p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, v1.EnvVar{
					Name: f, ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: f}},
				})
			}
		})
		w.syncAll(pod)
		if r := w.sync(pod); r.Acted {
			t.Errorf("6.10: not at rest: %+v", r)
		}
		if env["status.podIP"] != "192.0.2.7" || env["status.hostIP"] != "192.0.2.7" || env["metadata.uid"] != "uid-1" {
			t.Errorf("11.5: %v", env)
		}
	})
}

// A pod that is being deleted is not brought up again.
func TestDeletedPodStaysDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		pod := newPod()
		w.syncAll(pod)
		pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		if err := w.fake.Exit(pod.UID, "app", fake.Exit{Code: 1}); err != nil {
			t.Fatal(err)
		}
		w.syncAll(pod)
		if n := w.fake.CallCount(fake.StartContainer); n != 1 {
			t.Errorf("6.1: started %d times", n)
		}
	})
}

// Many pods start at once without waiting for each other, where the runtime's work has no
// limit.
func TestConcurrentPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, func(o *pods.Options) { o.MaxRuntimeWork = -1 })
		w.fake.Inject(fake.Fault{Effect: fake.Effect{Delay: second}})
		const n = 50
		done := make(chan error, n)
		began := time.Now()
		for i := range n {
			pod := newPod(func(p *v1.Pod) { p.UID = types.UID(fmt.Sprint("uid-", i)); p.Name = fmt.Sprint("p", i) })
			go func() { done <- w.m.SyncPod(t.Context(), pod, nil).Err }()
		}
		for range n {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		// Sandbox, its status, image status, pull, its status, create, start.
		if took := time.Since(began); took != 7*second {
			t.Errorf("took %v, one pod alone takes 7s", took)
		}
	})
}
