package enginetest_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
)

// withSidecar gives a pod an init container, setup, and a sidecar, proxy.
func withSidecar(p *v1.Pod) *v1.Pod {
	p.Spec.InitContainers = []v1.Container{
		{Name: "setup", Image: "app:1"},
		{Name: "proxy", Image: "app:1", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways)},
	}
	return p
}

// restartScripts are what the containers of these tests do: setup ends at once, deaf ignores SIGTERM, and
// all others end well a second after it.
func restartScripts(l fake.Launch) fake.Script {
	switch l.Container {
	case "setup":
		return fake.Script{Exit: &fake.Exit{}}
	case "deaf":
		return fake.Script{IgnoreTERM: true}
	}
	return fake.Script{OnTERM: fake.Exit{After: time.Second}}
}

// restarts returns for each container of a pod how often the runtime started it, and what its status counts.
func (r *rig) restarts(uid types.UID) string {
	var out []string
	pod := r.pod(uid)
	for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, c := range list {
			out = append(out, fmt.Sprintf("%s %d/%d", c.Name, r.runtime.Facts(uid, c.Name).Started, c.RestartCount))
		}
	}
	return strings.Join(out, ", ")
}

// phasesOf returns the phases that the sink was told of from Running on: whether it was told of Pending before that is
// a matter of scheduling, because a newer status takes the place of one that waits.
func (r *rig) phasesOf(uid types.UID) string {
	phases, _ := r.sink.of(uid)
	if len(phases) > 0 && phases[0] == v1.PodPending {
		phases = phases[1:]
	}
	return fmt.Sprint(phases)
}

// TestRestartPod: OC2: a restart replaces all running containers of a pod at once, time and again, whatever
// its restart policy says about exit codes: in the same sandbox, without a back-off, without init containers.
// Its events and its last states say why; its phase does not change.
func TestRestartPod(t *testing.T) {
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := fake.New(fake.Options{Script: restartScripts})
				r := newRig(t, rt, t.TempDir()).start()
				pod := withPolicy(withSidecar(newPod("web", "main", "other")), policy)
				r.set(pod)
				r.phase(pod.UID, v1.PodRunning, time.Minute)
				before := r.pod(pod.UID).Status
				for i := 1; i <= 5; i++ {
					began := time.Now()
					if err := r.engine.RestartPod(t.Context(), pod.UID, podwright.RestartOptions{Message: "The certificate is new."}); err != nil {
						t.Fatal(err)
					}
					// The sidecar stops after the others, which stop together.
					if took := time.Since(began); took < 2*time.Second || took > 5*time.Second {
						t.Errorf("restart %d took %v", i, took)
					}
					synctest.Wait()
					want := fmt.Sprintf("setup 1/0, proxy %d/%d, main %d/%d, other %d/%d", i+1, i, i+1, i, i+1, i)
					if got := r.restarts(pod.UID); got != want {
						t.Fatalf("after restart %d: %s, want %s", i, got, want)
					}
				}
				after := r.pod(pod.UID).Status
				if calls := rt.Calls(fake.Match{Method: fake.RunPodSandbox}); len(calls) != 1 || after.PodIP != before.PodIP || after.PodIP == "" {
					t.Errorf("%d sandboxes, address %q, before %q", len(calls), after.PodIP, before.PodIP)
				}
				if last := after.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.ExitCode != 0 {
					t.Errorf("the last state: %+v", last)
				}
				if said := r.events.said("web Killing"); len(said) != 9 || !strings.Contains(strings.Join(said, "\n"), "Container main was asked to restart, will be restarted") {
					t.Errorf("%d events Killing: %q", len(said), said)
				}
				if said := r.events.said("web RestartRequested"); len(said) == 0 || said[0] != "The certificate is new." || r.events.count("web BackOff") != 0 {
					t.Errorf("events %q, %d of a back-off", said, r.events.count("web BackOff"))
				}
				if got := r.phasesOf(pod.UID); got != "[Running]" {
					t.Errorf("phases %s", got)
				}
				<-time.After(time.Hour)
				if got, want := r.restarts(pod.UID), "setup 1/0, proxy 6/5, main 6/5, other 6/5"; got != want {
					t.Errorf("an hour later: %s, want %s", got, want)
				}
				if e, _ := r.engine.Explain(pod.UID); e.Restart != "" || r.problems() != nil {
					t.Errorf("left to do: %q, %v", e.Restart, r.problems())
				}
			})
		})
	}
}

// TestRestartIsNoCrash: OC2: a container that was restarted on request, ten times, and then crashes starts again at once, as after
// a first crash, even in another agent, which knows only the restart counts.
func TestRestartIsNoCrash(t *testing.T) {
	for _, otherAgent := range []bool{false, true} {
		t.Run(fmt.Sprint("other agent ", otherAgent), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newHost(t, fake.New(fake.Options{Script: restartScripts}))
				pod := newPod("web")
				r := n.agent()
				r.set(pod)
				r.phase(pod.UID, v1.PodRunning, time.Minute)
				for range 10 {
					if err := r.engine.RestartPod(t.Context(), pod.UID, podwright.RestartOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				<-time.After(10 * time.Second)
				if otherAgent {
					n.kill(r)
					r = n.agent()
					r.set(pod)
					r.phase(pod.UID, v1.PodRunning, time.Minute)
					<-time.After(time.Second)
				}
				if err := n.rt.Exit(pod.UID, "main", fake.Exit{Code: 1}); err != nil {
					t.Fatal(err)
				}
				r.within(3*time.Second, "the next run", func() error {
					if got, want := r.restarts(pod.UID), "main 12/11"; got != want {
						return fmt.Errorf("%s, want %s", got, want)
					}
					return nil
				})
			})
		})
	}
}

// TestRestartOfOneContainer: OC2: only the named containers are replaced. The restart under way
// also serves a second call, and a later call restarts the new run.
func TestRestartOfOneContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{Script: restartScripts})
		r := newRig(t, rt, t.TempDir()).start()
		pod := withSidecar(newPod("web", "main", "deaf"))
		r.set(pod)
		r.phase(pod.UID, v1.PodRunning, time.Minute)
		restart := func(names ...string) error {
			return r.engine.RestartPod(t.Context(), pod.UID, podwright.RestartOptions{Containers: names, Message: "Once more."})
		}
		var calls sync.WaitGroup
		began := time.Now()
		for range 3 {
			calls.Go(func() {
				if err := restart("deaf"); err != nil {
					t.Error(err)
				}
			})
			<-time.After(2 * time.Second)
		}
		if e, _ := r.engine.Explain(pod.UID); !strings.HasPrefix(e.Restart, "deaf, requested at ") || !strings.HasSuffix(e.Restart, ": Once more.") ||
			!strings.Contains(e.Worker.WaitingFor, "stopping container deaf, which was asked to restart, 6 s of 10 s grace") {
			t.Errorf("explained as %q, %q", e.Restart, e.Worker.WaitingFor)
		}
		calls.Wait()
		if took := time.Since(began); took < 10*time.Second || took > 13*time.Second {
			t.Errorf("took %v, the grace is 10 s", took)
		}
		if got, want := r.restarts(pod.UID), "setup 1/0, proxy 1/0, deaf 2/1, main 1/0"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		for _, name := range []string{"proxy", "main"} {
			if err := restart(name); err != nil {
				t.Error(err)
			}
		}
		if err := restart("deaf", "main", "main"); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if got, want := r.restarts(pod.UID), "setup 1/0, proxy 2/1, deaf 3/2, main 3/2"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// TestRestartOfCrowd: OC2: a hundred pods, half of them deaf, restart at once, each within its own grace.
func TestRestartOfCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 100
		rt := fake.New(fake.Options{Script: restartScripts})
		r := newRig(t, rt, t.TempDir()).start()
		var pods []*v1.Pod
		for i := range all {
			pods = append(pods, newPod(fmt.Sprintf("p%d", i), []string{"main", "deaf"}[i%2]))
		}
		r.set(pods...)
		for _, p := range pods {
			r.phase(p.UID, v1.PodRunning, time.Minute)
		}
		began := time.Now()
		var calls sync.WaitGroup
		for i, p := range pods {
			calls.Go(func() {
				if err := r.engine.RestartPod(t.Context(), p.UID, podwright.RestartOptions{}); err != nil {
					t.Error(err)
				}
				if took, limit := time.Since(began), []time.Duration{5 * time.Second, 15 * time.Second}[i%2]; took > limit {
					t.Errorf("%s: took %v", p.Name, took)
				}
			})
		}
		calls.Wait()
		<-time.After(time.Minute)
		for _, p := range pods {
			if c := r.pod(p.UID).Status.ContainerStatuses[0]; c.RestartCount != 1 || c.State.Running == nil || starts(rt, p.UID) != 2 {
				t.Errorf("%s: %d starts, %+v", p.Name, starts(rt, p.UID), c)
			}
		}
	})
}

// TestRestartWhilePodIsRemoved: OC2: a pod that has to stop during its restart, or at the same moment, stops and does not start
// again, and the call returns that.
func TestRestartWhilePodIsRemoved(t *testing.T) {
	for _, evict := range []bool{false, true} {
		for _, after := range []time.Duration{0, time.Second, 4 * time.Second} {
			t.Run(fmt.Sprint("evicted ", evict, " after ", after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rt := fake.New(fake.Options{Script: restartScripts})
					r := newRig(t, rt, t.TempDir()).start()
					pod := withPolicy(newPod("web", "main", "deaf"), v1.RestartPolicyOnFailure)
					r.set(pod)
					r.phase(pod.UID, v1.PodRunning, time.Minute)
					answer := make(chan error, 1)
					go func() { answer <- r.engine.RestartPod(t.Context(), pod.UID, podwright.RestartOptions{}) }()
					<-time.After(after)
					if evict {
						if err := r.engine.EvictPod(t.Context(), pod.UID, podwright.EvictOptions{}); err != nil {
							t.Error(err)
						}
					} else {
						r.set()
						r.empty(time.Minute)
					}
					err := <-answer
					// If both come at the same moment, either may be first, and the pod may have ended, or be unknown, when the call looks.
					refused := errors.Is(err, runtime.ErrFailedPrecondition) || after == 0 && errors.Is(err, runtime.ErrNotFound)
					if !refused || after > 0 && !strings.Contains(err.Error(), "restart pod default/web: it is being stopped") {
						t.Errorf("the call: %v", err)
					}
					if err := r.engine.RestartPod(t.Context(), pod.UID, podwright.RestartOptions{}); !errors.Is(err, runtime.ErrFailedPrecondition) && !errors.Is(err, runtime.ErrNotFound) {
						t.Errorf("afterwards: %v", err)
					}
					<-time.After(time.Minute)
					if n := starts(rt, pod.UID); n != 2 {
						t.Errorf("%d starts of 2 containers", n)
					}
				})
			})
		}
	}
}

// TestRestartInTrouble: OC2: for a while the runtime does not stop one container, and cannot make another. The call waits, containers that can
// restart do, and a container that ends well meanwhile under OnFailure restarts too.
func TestRestartInTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{Script: restartScripts})
		r := newRig(t, rt, t.TempDir()).start()
		pod := withPolicy(newPod("web", "main", "stuck"), v1.RestartPolicyOnFailure)
		other := withPolicy(newPod("other"), v1.RestartPolicyOnFailure)
		r.set(pod, other)
		for _, p := range []*v1.Pod{pod, other} {
			r.phase(p.UID, v1.PodRunning, time.Minute)
		}
		stops := rt.Inject(fake.Fault{Match: fake.Match{Method: fake.StopContainer, PodUID: pod.UID, Container: "stuck"}, Effect: fake.Effect{Err: runtime.ErrUnavailable}})
		makes := rt.Inject(fake.Fault{Match: fake.Match{Method: fake.CreateContainer, PodUID: other.UID}, Effect: fake.Effect{Err: errors.New("no room")}})
		var calls sync.WaitGroup
		for _, p := range []*v1.Pod{pod, other} {
			calls.Go(func() {
				if err := r.engine.RestartPod(t.Context(), p.UID, podwright.RestartOptions{Message: "The disk is new."}); err != nil {
					t.Error(err)
				}
			})
		}
		<-time.After(2 * time.Minute)
		if got, want := r.restarts(pod.UID), "main 2/1, stuck 1/0"; got != want {
			t.Errorf("while the runtime stops nothing: %s, want %s", got, want)
		}
		st := r.pod(other.UID).Status
		if c := st.ContainerStatuses[0]; st.Phase != v1.PodRunning || c.State.Waiting == nil || c.State.Waiting.Reason != "CreateContainerError" || c.LastTerminationState.Terminated == nil {
			t.Errorf("while the runtime makes nothing: %+v", st)
		}
		stops()
		makes()
		calls.Wait()
		<-time.After(time.Minute)
		if got, want := r.restarts(pod.UID)+", "+r.restarts(other.UID), "main 2/1, stuck 2/1, main 2/1"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		for _, p := range []*v1.Pod{pod, other} {
			if got := r.phasesOf(p.UID); got != "[Running]" {
				t.Errorf("%s: phases %s", p.Name, got)
			}
		}
	})
}

// TestRestartPodRefuses: OC2: RestartPod refuses invalid requests, and they have no effect.
func TestRestartPodRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{Script: func(l fake.Launch) fake.Script {
			if l.Container == "job" {
				return fake.Script{Exit: &fake.Exit{After: time.Second}}
			}
			return restartScripts(l)
		}})
		r := newRig(t, rt, t.TempDir())
		restart := func(uid types.UID, message string, names ...string) error {
			return r.engine.RestartPod(t.Context(), uid, podwright.RestartOptions{Containers: names, Message: message})
		}
		web, once, done := withSidecar(newPod("web")), withSidecar(withPolicy(newPod("once"), v1.RestartPolicyNever)), withPolicy(newPod("done", "job"), v1.RestartPolicyOnFailure)
		mixed := withPolicy(newPod("mixed", "main", "job"), v1.RestartPolicyOnFailure)
		if err := restart(web.UID, ""); !errors.Is(err, podwright.ErrNotRunning) {
			t.Errorf("before Run: %v", err)
		}
		r.start()
		r.set(web, once, done, mixed)
		for _, p := range []*v1.Pod{web, once, mixed} {
			r.phase(p.UID, v1.PodRunning, time.Minute)
		}
		r.phase(done.UID, v1.PodSucceeded, time.Minute)
		<-time.After(time.Minute)
		for _, test := range []struct {
			name, message string
			uid           types.UID
			containers    []string
			class         error
			text          string
		}{
			{"an unknown pod", "", "nobody's", nil, runtime.ErrNotFound, `restart pod "nobody's"`},
			{"a pod that has ended", "", done.UID, nil, runtime.ErrFailedPrecondition, "default/done: it has ended"},
			{"a pod that runs once", "", once.UID, nil, runtime.ErrFailedPrecondition, "container main must not run twice"},
			{"an unknown container", "", web.UID, []string{"main", "nope"}, runtime.ErrNotFound, `no container "nope"`},
			{"an init container", "", web.UID, []string{"setup"}, runtime.ErrFailedPrecondition, "setup is an init container"},
			{"a container that has ended", "", mixed.UID, []string{"job"}, runtime.ErrFailedPrecondition, "container job is not running"},
			{"a long message", strings.Repeat("x", 1025), web.UID, nil, runtime.ErrInvalid, "1025 bytes"},
		} {
			if err := restart(test.uid, test.message, test.containers...); !errors.Is(err, test.class) || cri.Class(err) != test.class || !strings.Contains(err.Error(), test.text) {
				t.Errorf("%s: %v", test.name, err)
			}
		}
		if got, want := r.restarts(web.UID)+"; "+r.restarts(once.UID)+"; "+r.restarts(mixed.UID), "setup 1/0, proxy 1/0, main 1/0; setup 1/0, proxy 1/0, main 1/0; job 1/0, main 1/0"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if err := restart(once.UID, "", "proxy"); err != nil {
			t.Errorf("a sidecar of a pod that runs once: %v", err)
		}
		if err := restart(mixed.UID, ""); err != nil {
			t.Errorf("a pod with a container that has ended: %v", err)
		}
		if got, want := r.restarts(once.UID)+"; "+r.restarts(mixed.UID), "setup 1/0, proxy 2/1, main 1/0; job 1/0, main 2/1"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		hung := r.runtime.Inject(fake.Fault{Match: fake.Match{Method: fake.StopContainer, PodUID: web.UID}, Effect: fake.Effect{Hang: true}})
		answer := make(chan error, 1)
		go func() { answer <- restart(web.UID, "") }()
		<-time.After(time.Second)
		r.stop()
		hung()
		if err := <-answer; !errors.Is(err, podwright.ErrNotRunning) {
			t.Errorf("while Run ends: %v", err)
		}
		if err := restart(web.UID, ""); !errors.Is(err, podwright.ErrNotRunning) {
			t.Errorf("after Run: %v", err)
		}
	})
}
