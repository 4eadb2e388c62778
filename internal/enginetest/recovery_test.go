package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
)

// withPolicy returns the pod with a restart policy.
func withPolicy(p *v1.Pod, policy v1.RestartPolicy) *v1.Pod {
	p.Spec.RestartPolicy = policy
	return p
}

// starts counts how often a container of a pod was started. A start whose caller was killed before
// it reached the runtime does not count.
func starts(rt *fake.Runtime, uid types.UID) int {
	return len(rt.Calls(fake.Match{Method: fake.StartContainer, PodUID: uid, Func: func(c fake.Call) bool {
		return !errors.Is(c.Err, context.Canceled)
	}}))
}

// TestRebootRunsOnceOnly: CK5, HI8, HI9, status.md 9.7, cleanup edge case 32. The runtime is empty
// after a reboot. A pod with policy Never that had started is reported with exit code 137 and does
// not run again, a pod with Always runs again with a higher restart count, and finished pods stay
// finished.
func TestRebootRunsOnceOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, byContainer(map[string]fake.Script{"job": {Exit: &fake.Exit{After: time.Second}}}))
		pods := func() []*v1.Pod {
			return []*v1.Pod{
				newPod("web"), withPolicy(newPod("once"), v1.RestartPolicyNever),
				withPolicy(newPod("retry"), v1.RestartPolicyOnFailure), withPolicy(newPod("done", "job"), v1.RestartPolicyNever),
			}
		}
		before := n.agent()
		before.set(pods()...)
		for _, uid := range []types.UID{"uid-web", "uid-once", "uid-retry"} {
			before.phase(uid, v1.PodRunning, 10*time.Second)
		}
		before.phase("uid-done", v1.PodSucceeded, 10*time.Second)
		<-time.After(5 * time.Second)
		n.kill(before)

		n.rt.LoseRecords()
		n.boot = "boot-2"
		r := n.agent()
		r.set(pods()...)
		r.phase("uid-web", v1.PodRunning, 10*time.Second)
		r.phase("uid-retry", v1.PodRunning, 10*time.Second)
		r.phase("uid-once", v1.PodFailed, 10*time.Second)
		r.phase("uid-done", v1.PodSucceeded, 10*time.Second)
		<-time.After(5 * time.Minute)

		for uid, want := range map[types.UID]int{"uid-web": 2, "uid-retry": 2, "uid-once": 1, "uid-done": 1} {
			if got := starts(n.rt, uid); got != want {
				t.Errorf("%s was started %d times in all, want %d", uid, got, want)
			}
		}
		once := r.pod("uid-once").Status.ContainerStatuses[0]
		if end := once.State.Terminated; end == nil || end.ExitCode != 137 || end.Reason != "ContainerStatusUnknown" {
			t.Errorf("once: %+v", once.State)
		}
		done := r.pod("uid-done").Status.ContainerStatuses[0]
		if end := done.State.Terminated; end == nil || end.ExitCode != 0 || end.Reason != "Completed" {
			t.Errorf("done: %+v", done.State)
		}
		for _, uid := range []types.UID{"uid-web", "uid-retry"} {
			c := r.pod(uid).Status.ContainerStatuses[0]
			if c.RestartCount != 1 || c.LastTerminationState.Terminated == nil || c.LastTerminationState.Terminated.ExitCode != 137 {
				t.Errorf("%s: restart count %d, last state %+v", uid, c.RestartCount, c.LastTerminationState)
			}
		}
		report, ok := r.engine.Recovery()
		if !ok || !report.Rebooted || fmt.Sprint(report.Lost) != "[uid-once uid-retry uid-web]" || fmt.Sprint(report.Ended) != "[uid-done]" {
			t.Errorf("recovery: %v %+v", ok, report)
		}
		if r.events.count("n1 Recovered") != 1 {
			t.Errorf("events: %v", r.events.seen)
		}
	})
}

// TestPodRemovedWhileDownKeepsGrace: CK6, HI7: a pod that its source dropped while no agent was
// running has the grace it would have had, and its own exit code is reported.
func TestPodRemovedWhileDownKeepsGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, byContainer(map[string]fake.Script{"slow": {OnTERM: fake.Exit{After: 5 * time.Second, Code: 4}}}))
		first := n.agent()
		first.set(newPod("web", "slow")) // grace 10 s
		first.phase("uid-web", v1.PodRunning, time.Minute)
		<-time.After(2 * time.Second)
		n.kill(first)

		codes := map[int32]bool{}
		r := n.agent(sinks(status.SinkFunc(func(_ context.Context, u status.Update) (status.StoreResult, error) {
			if end := u.Status.ContainerStatuses[0].State.Terminated; end != nil {
				codes[end.ExitCode] = true
			}
			return status.Stored, nil
		})))
		r.set()
		r.empty(time.Minute)
		<-time.After(5 * time.Second)
		if len(codes) != 1 || !codes[4] {
			t.Errorf("told of the exit codes %v, want 4", codes)
		}
	})
}

// TestFinishedStaysFinished: status.md 9.1, 9.6, HI7: the end of a pod was reported, and the agent
// is killed before the pod's remains are removed. The next agents report nothing new about the pod,
// whether it is still desired or not, and remove its remains when they can.
func TestFinishedStaysFinished(t *testing.T) {
	for _, tc := range []struct {
		container string
		policy    v1.RestartPolicy
		desired   bool
	}{{"ended", v1.RestartPolicyNever, true}, {"ended", v1.RestartPolicyNever, false}, {"stopped", v1.RestartPolicyAlways, false}} {
		t.Run(fmt.Sprintf("%s,desired=%t", tc.container, tc.desired), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newHost(t, byContainer(map[string]fake.Script{
					"ended": {Exit: &fake.Exit{After: 2 * time.Second, Code: 7}}, "stopped": {OnTERM: fake.Exit{After: time.Second, Code: 5}},
				}))
				var told []status.Update
				sink := sinks(status.SinkFunc(func(_ context.Context, u status.Update) (status.StoreResult, error) {
					if !u.Forgotten { // Forgotten ends the state from which a static pod could come back (FG1)
						told = append(told, u)
					}
					return status.Stored, nil
				}))
				busy := n.rt.Inject(
					fake.Fault{Match: fake.Match{Method: fake.RemoveContainer}, Effect: fake.Effect{Err: errors.New("busy")}},
					fake.Fault{Match: fake.Match{Method: fake.RemovePodSandbox}, Effect: fake.Effect{Err: errors.New("busy")}},
				)
				pod := func() *v1.Pod { return withPolicy(newPod("web", tc.container), tc.policy) }
				set := func(r *rig) {
					if tc.desired {
						r.set(pod())
						return
					}
					r.set()
				}
				first := n.agent(sink)
				first.set(pod())
				first.phase("uid-web", v1.PodRunning, time.Minute)
				<-time.After(5 * time.Second)
				set(first)
				<-time.After(10 * time.Second)
				n.kill(first)
				if !told[len(told)-1].Finished {
					t.Fatalf("the end of the pod was not told: %+v", told)
				}
				end := told[len(told)-1].Status

				for range 3 {
					told = nil
					r := n.agent(sink)
					set(r)
					<-time.After(10 * time.Second)
					n.kill(r)
					for _, u := range told {
						if !u.Finished || !equality.Semantic.DeepEqual(u.Status, end) {
							t.Errorf("told after the end: finished %t, %s, %+v", u.Finished, u.Status.Phase, u.Status.ContainerStatuses)
						}
					}
				}
				busy()
				r := n.agent(sink)
				r.set()
				r.empty(time.Minute)
			})
		})
	}
}

// TestReadsTakeNoStepOfRecovery: CK9. Run compares and reports what an engine finds at its start.
// Read methods such as Explain do not do this, and Run does not need them for it.
func TestReadsTakeNoStepOfRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, fake.New(fake.Options{}))
		before := n.agent()
		before.set(newPod("web"))
		before.phase("uid-web", v1.PodRunning, time.Minute)
		<-time.After(5 * time.Second)
		n.kill(before)

		deaf := n.rt.Inject(fake.Fault{Match: fake.Match{Method: fake.ListPodSandbox}, Effect: fake.Effect{Err: errors.New("not yet")}})
		r := n.agent()
		for range 100 {
			<-time.After(50 * time.Millisecond)
			_, _ = r.engine.Explain("uid-web")
			_ = r.engine.Healthy()
			_ = r.engine.Pods()
			if report, ok := r.engine.Recovery(); ok {
				t.Fatalf("recovered before the runtime was read: %+v", report)
			}
		}
		deaf()
		<-time.After(5 * time.Second)
		if got := r.events.count("n1 Recovered"); got != 1 {
			t.Errorf("%d events of the recovery although no source has said anything, want 1", got)
		}
		if report, ok := r.engine.Recovery(); !ok || fmt.Sprint(report.Resumed) != "[uid-web]" {
			t.Errorf("recovery: %t %+v", ok, report)
		}
	})
}

// TestEndBeforeTheFirstLookIsTold: HI7, W6. The containers of a pod end while no agent is running.
// The next agent hears of the pod and of its removal before it has looked at the pod: the pod's end
// is still reported.
func TestEndBeforeTheFirstLookIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, fake.New(fake.Options{}))
		first := n.agent()
		first.set(newPod("web"))
		first.phase("uid-web", v1.PodRunning, time.Minute)
		<-time.After(5 * time.Second)
		n.kill(first)
		if err := n.rt.Exit("uid-web", "main", fake.Exit{Code: 42}); err != nil {
			t.Fatal(err)
		}
		sandboxes, err := n.rt.ListPodSandbox(t.Context(), nil)
		if err != nil || len(sandboxes) != 1 {
			t.Fatal(sandboxes, err)
		}
		if err := n.rt.StopPodSandbox(t.Context(), sandboxes[0].Id); err != nil {
			t.Fatal(err)
		}

		deaf := n.rt.Inject(fake.Fault{Match: fake.Match{Method: fake.ListPodSandbox}, Effect: fake.Effect{Err: errors.New("not yet")}})
		var last status.Update
		r := n.agent(sinks(status.SinkFunc(func(_ context.Context, u status.Update) (status.StoreResult, error) {
			last = u
			return status.Stored, nil
		})))
		r.set(newPod("web"))
		<-time.After(time.Second)
		r.set()
		<-time.After(time.Second)
		deaf()
		r.empty(time.Minute)
		<-time.After(30 * time.Second)
		if !last.Finished || len(last.Status.ContainerStatuses) != 1 {
			t.Fatalf("the end of the pod was not told: %+v", last)
		}
		if end := last.Status.ContainerStatuses[0].State.Terminated; end == nil || end.ExitCode != 42 {
			t.Errorf("told %+v", last.Status.ContainerStatuses[0].State)
		}
		if rec := n.records()["uid-web"]; rec != nil {
			t.Errorf("the record stays: %+v", rec)
		}
	})
}

// TestPodStoppedByADrainStartsAgain: spec/cleanup.md 10. A pod that a drain stopped starts again
// when the engine does, whatever its policy. A pod that had ended on its own does not.
func TestPodStoppedByADrainStartsAgain(t *testing.T) {
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newHost(t, byContainer(map[string]fake.Script{
					"slow": {OnTERM: fake.Exit{After: 3 * time.Second}}, "job": {Exit: &fake.Exit{After: time.Second}},
				}))
				pods := func() []*v1.Pod {
					return []*v1.Pod{withPolicy(newPod("web", "slow"), policy), withPolicy(newPod("job", "job"), v1.RestartPolicyNever)}
				}
				first := n.agent()
				first.set(pods()...)
				first.phase("uid-web", v1.PodRunning, time.Minute)
				first.phase("uid-job", v1.PodSucceeded, time.Minute)
				<-time.After(5 * time.Second)
				if err := first.engine.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}

				r := n.agent()
				r.set(pods()...)
				r.phase("uid-web", v1.PodRunning, time.Minute)
				r.phase("uid-job", v1.PodSucceeded, time.Minute)
				<-time.After(time.Minute)
				if web, job := starts(n.rt, "uid-web"), starts(n.rt, "uid-job"); web != 2 || job != 1 {
					t.Errorf("%d starts of web, %d of job", web, job)
				}
			})
		})
	}
}
