package status

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSandboxReady: spec/status.md 5.4, 5.7. A new sandbox shows in the cached status, as long as there is one that can change,
// and nothing else of that status changes.
func TestSandboxReady(t *testing.T) {
	m, clk := managed(t, Options{})
	pod := newPod(apps("a0"))
	with := func(s *v1.PodStatus, ready v1.ConditionStatus) *v1.PodStatus {
		s.Conditions = []v1.PodCondition{
			{Type: v1.PodReadyToStartContainers, Status: ready, Reason: "r", LastTransitionTime: metav1.Time{Time: t1}, ObservedGeneration: 1},
			{Type: v1.PodReady, Status: v1.ConditionFalse, ObservedGeneration: 1},
		}
		return s
	}
	judge := func(what string, want uint64, ready v1.ConditionStatus) v1.PodStatus {
		t.Helper()
		got, _ := m.Get(pod.UID)
		if v := version(m, pod.UID); v != want || condition(&got, v1.PodReadyToStartContainers).Status != ready {
			t.Errorf("%s: %q in version %d, want %q in %d", what, condition(&got, v1.PodReadyToStartContainers).Status, v, ready, want)
		}
		return got
	}
	m.SetSandboxReady(pod.UID)
	judge("unknown pod", 0, "")
	set(t, m, pod, scene(newPod(), "A W"))
	m.SetSandboxReady(pod.UID)
	judge("no such condition yet", 1, "")
	set(t, m, pod, with(scene(newPod(), "A W"), v1.ConditionFalse))
	before := judge("no sandbox", 2, v1.ConditionFalse)

	clk.SetTime(t2)
	newer := pod.DeepCopy()
	newer.Generation = 2
	m.ObservePod(newer)
	m.SetSandboxReady(pod.UID)
	m.SetSandboxReady(pod.UID)
	got := judge("a sandbox", 3, v1.ConditionTrue)
	if c := condition(&got, v1.PodReadyToStartContainers); c.Reason != "" || !c.LastTransitionTime.Time.Equal(t2) || c.ObservedGeneration != 1 {
		t.Errorf("%+v", c)
	}
	if got.ObservedGeneration != 1 || got.ContainerStatuses[0].State.Waiting == nil || condition(&got, v1.PodReady).Status != v1.ConditionFalse {
		t.Errorf("%+v", got)
	}
	if condition(&before, v1.PodReadyToStartContainers).Status != v1.ConditionFalse {
		t.Error("the status that others hold has changed")
	}
	set(t, m, newer, with(scene(newPod(), "A W"), v1.ConditionFalse))
	judge("no sandbox again", 4, v1.ConditionFalse)

	set(t, m, newer, with(withPhase(v1.PodFailed, scene(newPod(), "A T1")), v1.ConditionFalse))
	m.SetSandboxReady(pod.UID)
	judge("ended", 5, v1.ConditionFalse)
}

// slowAPI takes a second for each write.
type slowAPI struct{ *fakeAPI }

func (a slowAPI) Store(ctx context.Context, u Update) (StoreResult, error) {
	<-time.After(time.Second)
	return a.fakeAPI.Store(ctx, u)
}

// TestSandboxHoldsBackNothingElse: spec/status.md 5.4. What an API lacks beside the sandbox is sent at once, also if a write before
// was under way when both happened.
func TestSandboxHoldsBackNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := newPod(apps("a0"))
		api := newAPI(pod)
		m := started(t, Options{Sinks: []StatusSink{slowAPI{api}}})
		of := func(what string, sandbox v1.ConditionStatus) {
			s := withPhase(v1.PodRunning, scene(newPod(), what))
			s.Conditions = []v1.PodCondition{{Type: v1.PodReadyToStartContainers, Status: sandbox}}
			set(t, m, pod, s)
		}
		of("A r", v1.ConditionTrue)
		synctest.Wait()
		of("A T1", v1.ConditionFalse)
		m.SetSandboxReady(pod.UID)
		advance(t, 3*time.Second)
		stored := api.stored()
		if last := stored[len(stored)-1].Status; last.ContainerStatuses[0].State.Terminated == nil {
			t.Errorf("the end of the container waits: %+v", last.ContainerStatuses[0])
		}
	})
}

// TestQuickStartCostsNoFurtherWrite: spec/status.md 5.4, spec/kube.md KW6. An API hears of a new sandbox with the next change,
// or after 10 s, also if its last answer is still under way and if the pod comes back from it; a sink that listens hears of it
// at once.
func TestQuickStartCostsNoFurtherWrite(t *testing.T) {
	for _, slow := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			pod := newPod(apps("a0"))
			api, listener := newAPI(pod), &recorder{}
			m := started(t, Options{Sinks: []StatusSink{api, listener}})
			of := func(what string, sandbox v1.ConditionStatus) {
				s := withPhase(v1.PodPending, scene(newPod(), what))
				s.Conditions = []v1.PodCondition{{Type: v1.PodReadyToStartContainers, Status: sandbox}}
				set(t, m, pod, s)
			}
			stores := func(what string, want, listened int) {
				t.Helper()
				if got := len(api.stored()); got != want || listener.count() != listened {
					t.Errorf("slow %t, %s: %d writes, want %d; %d listened to, want %d", slow, what, got, want, listener.count(), listened)
				}
			}
			of("A W", v1.ConditionFalse)
			synctest.Wait()
			m.SetSandboxReady(pod.UID)
			m.ObservePod(api.edit(pod.Name, func(*v1.Pod) {}))
			advance(t, sandboxPatience-time.Second)
			stores("the image is being pulled", 1, 2)
			if slow {
				advance(t, time.Second)
				stores("a slow pull", 2, 2)
				if c := condition(api.stored()[1].Status, v1.PodReadyToStartContainers); c.Status != v1.ConditionTrue || time.Since(c.LastTransitionTime.Time) > sandboxPatience+time.Second {
					t.Errorf("%+v", c)
				}
			}
			before := len(api.stored())
			of("A R", v1.ConditionTrue)
			synctest.Wait()
			stores("it runs", before+1, 3)
			advance(t, time.Minute)
			stores("later", before+1, 3)
			if err := m.Flush(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
