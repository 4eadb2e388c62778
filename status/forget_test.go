package status

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestForgottenPodsEnd: FG1: what a sink and a watcher hear last of a pod, whatever its status was.
func TestForgottenPodsEnd(t *testing.T) {
	exit := func(code int32) v1.ContainerStatus {
		return v1.ContainerStatus{Name: "a0", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code}}}
	}
	waiting := v1.ContainerStatus{Name: "a0", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}}
	for _, test := range []struct {
		name   string
		status v1.PodStatus
		want   v1.PodPhase
	}{
		{"ended well, may have come back", v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{exit(0)}}, v1.PodSucceeded},
		{"ended badly", v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{exit(3)}}, v1.PodFailed},
		{"never began", v1.PodStatus{Phase: v1.PodPending, ContainerStatuses: []v1.ContainerStatus{waiting}}, v1.PodFailed},
		{"nothing is known of it", v1.PodStatus{Phase: v1.PodPending}, v1.PodFailed},
		{"succeeded", v1.PodStatus{Phase: v1.PodSucceeded, Reason: "Done"}, v1.PodSucceeded},
		{"was evicted", v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted"}, v1.PodFailed},
	} {
		bubble(t, test.name, func(t *testing.T) {
			sink := &recorder{}
			m := started(t, Options{Sinks: []StatusSink{sink}})
			pod := newPod(static, apps("a0"))
			set(t, m, pod, &test.status)
			synctest.Wait()
			_, w := m.watch()
			m.RemoveOrphanedStatuses(nil)
			synctest.Wait()
			got := sink.got(pod.UID)
			if len(got) != 2 || !got[1].Forgotten || !got[1].Finished || got[1].Version != 2 {
				t.Fatalf("%+v", got)
			}
			change, err := w.wait(t.Context(), nil)
			if err != nil || !change.Forgotten || change.Status != got[1].Status {
				t.Errorf("the watcher: %+v, %v", change, err)
			}
			end := got[1].Status
			if end.Phase != test.want || end.Reason != test.status.Reason {
				t.Errorf("ended %s %q, want %s", end.Phase, end.Reason, test.want)
			}
			if ready := conditionOf(end.Conditions, v1.PodReady); ready != nil && ready.Status == v1.ConditionTrue {
				t.Error("it is ready")
			}
			for _, c := range end.ContainerStatuses {
				if c.State.Terminated == nil && test.name != "never began" {
					t.Errorf("container %+v", c)
				}
			}
			if m.Untold(pod.UID) {
				t.Error("there is something left to tell")
			}
		})
	}
}

// TestFailingSinksHearOfForgottenPods: FG1: many pods are forgotten while a sink fails, for an hour or
// for more than a day: in the end the sink is told of each, once, or the manager gives up and keeps
// nothing. Another sink is told at once, and a pod that comes back is not deleted by outdated news.
func TestFailingSinksHearOfForgottenPods(t *testing.T) {
	for down, pods := range map[time.Duration]int{time.Hour: 100, 30 * time.Hour: 10} {
		bubble(t, fmt.Sprint(down), func(t *testing.T) {
			began := time.Now()
			failing := &recorder{answer: func(context.Context, int, Update) (StoreResult, error) {
				if time.Since(began) < down {
					return 0, errors.New("the database is down")
				}
				return Stored, nil
			}}
			well := &recorder{}
			m := started(t, Options{Sinks: []StatusSink{failing, well}})
			for i := range pods {
				set(t, m, newPod(uid(types.UID(fmt.Sprint("p", i)))), message("up"))
			}
			synctest.Wait()
			m.RemoveOrphanedStatuses(nil)
			set(t, m, newPod(uid("p7")), message("next life"))
			synctest.Wait()
			failing.mu.Lock()
			tried := len(failing.updates) // perhaps p7 too, before its next life
			failing.mu.Unlock()
			for i := range pods {
				u := types.UID(fmt.Sprint("p", i))
				if got := well.got(u); u != "p7" && (len(got) != 2 || !got[1].Forgotten) {
					t.Errorf("the sink that is well: %+v", got)
				}
				if !m.Untold(u) {
					t.Errorf("%s counts as told", u)
				}
			}
			advance(t, down+2*time.Minute)
			failing.mu.Lock()
			heard := map[types.UID]int{}
			for _, u := range failing.updates[tried:] {
				if u.Forgotten && u.UID == "p7" {
					t.Error("the pod that came back is forgotten")
				}
			}
			failing.mu.Unlock()
			for i := range pods {
				u := types.UID(fmt.Sprint("p", i))
				if got := failing.got(u); len(got) > 0 && got[len(got)-1].Forgotten {
					heard[u]++
				}
				if m.Untold(u) != (u == "p7") {
					t.Errorf("%s: something left to tell: %v", u, m.Untold(u))
				}
			}
			if len(heard) != pods-1 {
				t.Errorf("%d pods were told to be forgotten", len(heard))
			}
			m.mu.Lock()
			if left := len(m.senders[0].pods); left != 1 {
				t.Errorf("%d deliveries are kept", left)
			}
			m.mu.Unlock()
			if last := failing.got("p7"); last[len(last)-1].Status.Message != "next life" {
				t.Errorf("the pod that came back: %+v", last[len(last)-1])
			}
		})
	}
}

// TestForgottenAtAnAPI: FG1: a sink before an API hears nothing of a forgotten pod, because that is deleted.
func TestForgottenAtAnAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &recorder{}
		m := started(t, Options{Sinks: []StatusSink{readable{sink}}})
		set(t, m, newPod(), message("up"))
		synctest.Wait()
		m.Forget("uid-1")
		advance(t, time.Hour)
		if got := sink.got("uid-1"); len(got) != 1 || got[0].Forgotten {
			t.Errorf("%+v", got)
		}
		if m.Untold("uid-1") {
			t.Error("something is left to tell")
		}
	})
}
