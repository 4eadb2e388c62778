package statussink

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime/fake"
)

// deleted is what a user's deletion makes of a pod at a server.
func deleted(pod *v1.Pod) {
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = ptr.To(metav1.Now()), ptr.To[int64](30)
}

// TestExitCodeSurvivesOutageAndKills: KT6, spec/status.md edge case 22. The server is away
// while a pod ends, and the agent is killed twice meanwhile: the exit code arrives, and
// there is one deletion.
func TestExitCodeSurvivesOutageAndKills(t *testing.T) {
	for _, whenDeleted := range []string{"during the outage", "after it"} {
		t.Run("deleted "+whenDeleted, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				rt := fake.New(fake.Options{Script: func(fake.Launch) fake.Script {
					return fake.Script{Exit: &fake.Exit{After: time.Minute, Code: 42}}
				}})
				a := newAgent(t, s, rt, nil)
				a.start()
				s.put(runnable("u1", "web"))
				a.within(30*time.Second, "running", func() bool { return s.pod("shop", "web").Status.Phase == v1.PodRunning })
				a.outage(true)
				<-time.After(90 * time.Second)
				a.kill()
				a.start()
				<-time.After(10 * time.Second)
				if whenDeleted == "during the outage" {
					s.edit("shop", "web", deleted)
				}
				a.kill()
				a.start()
				<-time.After(10 * time.Second)
				if got := s.pod("shop", "web").Status.Phase; got != v1.PodRunning {
					t.Fatalf("the server has heard of %s", got)
				}
				a.outage(false)
				failed := func() bool {
					stored := s.statuses("u1")
					last := &stored[len(stored)-1]
					return last.Phase == v1.PodFailed && last.ContainerStatuses[0].State.Terminated.ExitCode == 42
				}
				a.within(time.Minute, "the exit code", failed)
				if whenDeleted == "after it" {
					s.edit("shop", "web", deleted)
				}
				a.within(time.Minute, "the pod gone", func() bool { return s.pod("shop", "web") == nil })
				<-time.After(time.Minute)
				if n := strings.Count(s.took(), "DELETE"); n != 1 || !failed() {
					t.Errorf("%d deletions, exit code kept: %t", n, failed())
				}
				if n := len(rt.Calls(fake.Match{Method: fake.StartContainer})); n != 1 {
					t.Errorf("%d starts", n)
				}
				a.stop()
			})
		})
	}
}

// TestKillsAroundTheEndLoseNothing: KT6. The agent is killed at each moment around the end of a
// container and of its pod, and once more a moment later, with the server there: the exit
// code arrives before the pod is deleted, no container starts twice, and what was deleted
// is not deleted again.
func TestKillsAroundTheEndLoseNothing(t *testing.T) {
	for at := -200 * time.Millisecond; at < 3*time.Second; at += 50 * time.Millisecond {
		t.Run(at.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { killsAroundTheEnd(t, at) })
		})
	}
}

func killsAroundTheEnd(t *testing.T, at time.Duration) {
	s := newServer()
	s.before = func(string) { <-time.After(30 * time.Millisecond) }
	rt := fake.New(fake.Options{Script: func(fake.Launch) fake.Script {
		return fake.Script{OnTERM: fake.Exit{After: 500 * time.Millisecond, Code: 42}}
	}})
	for _, m := range []fake.Method{fake.StopPodSandbox, fake.RemoveContainer, fake.RemovePodSandbox} {
		rt.Inject(fake.Fault{Match: fake.Match{Method: m}, Effect: fake.Effect{Delay: 100 * time.Millisecond}})
	}
	a := newAgent(t, s, rt, nil)
	a.start()
	s.put(runnable("u1", "web"))
	a.within(30*time.Second, "running", func() bool { return s.pod("shop", "web").Status.Phase == v1.PodRunning })
	s.edit("shop", "web", deleted)
	<-time.After(500*time.Millisecond + at)
	a.kill()
	a.start()
	<-time.After(at%time.Second + 300*time.Millisecond)
	a.kill()
	a.start()
	a.within(2*time.Minute, "the pod gone", func() bool { return s.pod("shop", "web") == nil })
	stored := s.statuses("u1")
	if last := &stored[len(stored)-1]; last.Phase != v1.PodFailed || last.ContainerStatuses[0].State.Terminated == nil || last.ContainerStatuses[0].State.Terminated.ExitCode != 42 {
		t.Errorf("the last status is %+v", last)
	}
	<-time.After(time.Minute)
	// A kill between the server's deletion and its answer may repeat the call.
	if n := strings.Count(s.took(), "DELETE"); n < 1 || n > 2 {
		t.Errorf("%d deletions", n)
	}
	if n := len(rt.Calls(fake.Match{Method: fake.StartContainer})); n != 1 {
		t.Errorf("%d starts", n)
	}
	a.stop()
}

// TestDeletionComesAfterTheEnd: KT4, spec/status.md 8.6. The server is asked to delete a pod
// once its containers have stopped and its end is stored, not before, and once.
func TestDeletionComesAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		rt := fake.New(fake.Options{Script: func(fake.Launch) fake.Script {
			return fake.Script{OnTERM: fake.Exit{After: 7 * time.Second, Code: 3}}
		}})
		a := newAgent(t, s, rt, nil)
		early := ""
		s.before = func(call string) {
			if strings.HasPrefix(call, "DELETE") {
				if pod := s.pod("shop", "web"); pod.Status.Phase != v1.PodFailed || rt.Running("u1", "main") > 0 {
					early = fmt.Sprint(pod.Status.Phase, rt.Running("u1", "main"))
				}
			}
		}
		a.start()
		s.put(runnable("u1", "web"))
		a.within(30*time.Second, "running", func() bool { return s.pod("shop", "web").Status.Phase == v1.PodRunning })
		s.edit("shop", "web", deleted)
		<-time.After(5 * time.Second)
		if s.pod("shop", "web") == nil {
			t.Fatal("deleted while its container stops")
		}
		a.within(time.Minute, "the pod gone", func() bool { return s.pod("shop", "web") == nil })
		<-time.After(time.Minute)
		if n := strings.Count(s.took(), "DELETE"); n != 1 || early != "" {
			t.Errorf("%d deletions, early: %q", n, early)
		}
		a.stop()
	})
}

// TestForceDeletedPodLeavesItsSuccessorAlone: KT8. A pod is deleted without the agent and
// made again: the containers of the old life stop, and nothing of it reaches the new one.
func TestForceDeletedPodLeavesItsSuccessorAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		rt := fake.New(fake.Options{Script: func(fake.Launch) fake.Script {
			return fake.Script{OnTERM: fake.Exit{After: 5 * time.Second, Code: 3}}
		}})
		a := newAgent(t, s, rt, nil)
		a.start()
		s.put(runnable("u1", "web"))
		a.within(30*time.Second, "running", func() bool { return s.pod("shop", "web").Status.Phase == v1.PodRunning })
		s.put(runnable("u2", "web"))
		a.within(2*time.Minute, "the next life runs", func() bool {
			return s.pod("shop", "web").Status.Phase == v1.PodRunning && rt.Running("u1", "main") == 0
		})
		<-time.After(5 * time.Minute)
		if pod := s.pod("shop", "web"); pod == nil || pod.UID != "u2" || rt.Running("u2", "main") != 1 {
			t.Errorf("there is %v, %d run", pod, rt.Running("u2", "main"))
		}
		if calls := s.took(); strings.Contains(calls, "DELETE") {
			t.Errorf("calls %s", calls)
		}
		for _, st := range s.statuses("u2") {
			if len(st.ContainerStatuses) > 0 && st.ContainerStatuses[0].State.Terminated != nil {
				t.Errorf("the next life is shown as %v", st)
			}
		}
		a.stop()
	})
}

// TestConditionsOfOthersSurvive: KT3. While the agent reports, another client adds
// conditions of its own, one per write; all of them are there at the end.
func TestConditionsOfOthersSurvive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		rt := fake.New(fake.Options{Script: func(fake.Launch) fake.Script { return fake.Script{Exit: &fake.Exit{After: time.Second}} }})
		a := newAgent(t, s, rt, nil)
		a.start()
		pod := runnable("u1", "web")
		pod.Spec.RestartPolicy = v1.RestartPolicyAlways
		s.put(pod)
		others := map[v1.PodConditionType]bool{}
		for i := range 200 {
			kind := v1.PodConditionType(fmt.Sprint("example.com/", i))
			others[kind] = true
			s.edit("shop", "web", func(p *v1.Pod) {
				p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: kind, Status: v1.ConditionTrue})
			})
			<-time.After(time.Second)
		}
		for _, c := range s.pod("shop", "web").Status.Conditions {
			delete(others, c.Type)
		}
		if len(others) > 0 {
			t.Errorf("lost: %v", others)
		}
		if n := len(s.statuses("u1")); n < 10 {
			t.Errorf("only %d writes of the agent", n)
		}
		a.stop()
	})
}
