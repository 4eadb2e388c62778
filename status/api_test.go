package status

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// fakeAPI is a sink that reads and deletes, with pods by name.
type fakeAPI struct {
	mu      sync.Mutex
	pods    map[string]*v1.Pod
	stores  []Update
	deletes []types.UID
	reads   int
	fail    error
}

func newAPI(pods ...*v1.Pod) *fakeAPI {
	a := &fakeAPI{pods: map[string]*v1.Pod{}}
	for _, p := range pods {
		a.pods[p.Name] = p.DeepCopy()
	}
	return a
}

func (a *fakeAPI) Store(_ context.Context, u Update) (StoreResult, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	pod := a.pods[u.Name]
	switch {
	case a.fail != nil:
		return 0, a.fail
	case pod == nil:
		return Gone, nil
	case pod.UID != u.UID:
		return Recreated, nil
	}
	a.stores = append(a.stores, u)
	pod = pod.DeepCopy()
	u.Status.DeepCopyInto(&pod.Status)
	a.pods[u.Name] = pod
	return Stored, nil
}

func (a *fakeAPI) ReadPod(_ context.Context, ref PodRef) (*v1.Pod, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reads++
	return a.pods[ref.Name], a.fail
}

func (a *fakeAPI) DeletePod(_ context.Context, ref PodRef) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fail != nil {
		return a.fail
	}
	a.deletes = append(a.deletes, ref.UID)
	delete(a.pods, ref.Name)
	return nil
}

// stored returns what was stored so far.
func (a *fakeAPI) stored() []Update {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.stores)
}

// edit changes a pod at the API from outside.
func (a *fakeAPI) edit(name string, change podOption) *v1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	pod := a.pods[name].DeepCopy()
	change(pod)
	a.pods[name] = pod
	return pod
}

func (a *fakeAPI) setFail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fail = err
}

func withPhase(p v1.PodPhase, s *v1.PodStatus) *v1.PodStatus {
	s.Phase = p
	return s
}

func TestAPI(t *testing.T) {
	bubble(t, "8.4 an end that an API server lets no container leave stays there, without further calls", func(t *testing.T) {
		pod := newPod(policy(onFailure), inits("i0"), apps("a1"))
		api := newAPI(pod)
		m := started(t, Options{Sinks: []StatusSink{api}})
		ended, again := scene(newPod(), "I T0, A R"), scene(newPod(), "I R, A R")
		set(t, m, pod, withPhase(v1.PodRunning, ended))
		synctest.Wait()
		again.InitContainerStatuses[0].ContainerID = id("i0", 1).String()
		set(t, m, pod, withPhase(v1.PodRunning, again))
		<-time.After(time.Minute)
		synctest.Wait()
		if s, _ := m.Get(pod.UID); s.InitContainerStatuses[0].State.Running == nil {
			t.Errorf("the engine's own status is %+v", s)
		}
		if got := api.stored(); len(got) != 1 {
			t.Errorf("%d statuses were stored: %+v", len(got), got[len(got)-1].Status.InitContainerStatuses)
		}
	})
	bubble(t, "8.3 no difference, no call; edge 12 foreign conditions survive", func(t *testing.T) {
		pod := newPod(apps("a0"))
		api := newAPI(pod)
		m := started(t, Options{Sinks: []StatusSink{api}})
		set(t, m, pod, withPhase(v1.PodRunning, scene(newPod(), "A R")))
		synctest.Wait()
		seen := api.edit("web", func(p *v1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: "example.com/x", Status: v1.ConditionTrue})
			p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpu"}}
		})
		m.ObservePod(seen)
		synctest.Wait()
		if len(api.stores) != 1 {
			t.Fatalf("%d stores, want 1", len(api.stores))
		}
		set(t, m, pod, withPhase(v1.PodRunning, scene(newPod(), "A T1")))
		synctest.Wait()
		if len(api.stores) != 2 {
			t.Fatalf("%d stores, want 2", len(api.stores))
		}
		if got := api.stores[1].Status; got.Conditions[0].Type != "example.com/x" || len(got.ResourceClaimStatuses) != 1 {
			t.Errorf("what others wrote is lost: %+v", got)
		}
	})

	bubble(t, "8.1 overwritten from outside: sent again", func(t *testing.T) {
		pod := newPod(apps("a0"))
		api := newAPI(pod)
		m := started(t, Options{Sinks: []StatusSink{api}})
		set(t, m, pod, withPhase(v1.PodRunning, scene(newPod(), "A R")))
		synctest.Wait()
		m.ObservePod(api.edit("web", func(p *v1.Pod) { p.Status.Phase = v1.PodPending }))
		synctest.Wait()
		if len(api.stores) != 2 || api.stores[1].Status.Phase != v1.PodRunning || api.stores[1].Version != 1 {
			t.Errorf("%d stores: %+v", len(api.stores), api.stores)
		}
		m.ObservePod(newPod(uid("stranger")))
	})

	bubble(t, "8.4 edge 10 a terminal phase waits for the containers, DisruptionTarget with it", func(t *testing.T) {
		pod := newPod(apps("a0"))
		pod.Status.Phase = v1.PodRunning
		api := newAPI(pod)
		var could bool
		var mu sync.Mutex
		setCould := func(b bool) { mu.Lock(); could = b; mu.Unlock() }
		setCould(true)
		m := started(t, Options{Sinks: []StatusSink{api}, CouldHaveRunningContainers: func(types.UID) bool {
			mu.Lock()
			defer mu.Unlock()
			return could
		}})
		s := withPhase(v1.PodFailed, scene(newPod(), "A T1"))
		s.Reason = "Evicted"
		s.Conditions = []v1.PodCondition{
			{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, LastTransitionTime: metav1.Time{Time: t0}},
			{Type: v1.PodReady, Status: v1.ConditionTrue},
			{Type: v1.ContainersReady, Status: v1.ConditionTrue},
		}
		set(t, m, pod, s)
		synctest.Wait()
		if len(api.stores) != 1 {
			t.Fatalf("%d stores", len(api.stores))
		}
		if got := api.stores[0].Status; got.Phase != v1.PodRunning || got.Reason != "" || conditionOf(got.Conditions, v1.DisruptionTarget) != nil {
			t.Errorf("held back: %+v", got)
		}
		setCould(false)
		advance(t, 10*time.Second) // without a hint: the resync finds it
		if len(api.stores) != 2 {
			t.Fatalf("%d stores", len(api.stores))
		}
		got := api.stores[1].Status
		disruption := condition(got, v1.DisruptionTarget)
		if got.Phase != v1.PodFailed || got.Reason != "Evicted" || disruption.Status != v1.ConditionTrue || disruption.LastTransitionTime.Time.Equal(t0) {
			t.Errorf("released: %+v", got)
		}
		for _, c := range []v1.PodConditionType{v1.PodReady, v1.ContainersReady} { // edge 9
			if c := condition(got, c); c.Status != v1.ConditionFalse || c.Reason != reasonPodFailed {
				t.Errorf("%+v", c)
			}
		}
		advance(t, time.Hour)
		if len(api.stores) != 2 {
			t.Errorf("%d stores after an hour", len(api.stores))
		}
	})

	bubble(t, "8.5 a status that shows a running container is never terminal", func(t *testing.T) {
		pod := newPod(apps("a0"))
		sink := &recorder{}
		m := started(t, Options{Sinks: []StatusSink{sink}})
		set(t, m, pod, withPhase(v1.PodFailed, scene(newPod(), "A R")))
		synctest.Wait()
		if got := sink.got(pod.UID); got[0].Status.Phase != v1.PodRunning {
			t.Errorf("%s", got[0].Status.Phase)
		}
		if err := m.TerminatePod(pod); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := sink.got(pod.UID); len(got) != 2 || got[1].Status.Phase != v1.PodFailed || !got[1].Finished {
			t.Errorf("%+v", got)
		}
	})

	bubble(t, "8.6 deleted once finished, and only then", func(t *testing.T) {
		pod := newPod(apps("a0"), deleted)
		other := newPod(apps("a0"), uid("kept"))
		other.Name = "kept"
		api := newAPI(pod, other)
		m := started(t, Options{Sinks: []StatusSink{api}})
		set(t, m, pod, withPhase(v1.PodRunning, scene(newPod(), "A R")))
		set(t, m, other, withPhase(v1.PodRunning, scene(newPod(), "A T1")))
		synctest.Wait()
		set(t, m, pod, withPhase(v1.PodFailed, scene(newPod(), "A T1")))
		advance(t, time.Minute)
		if len(api.deletes) > 0 {
			t.Fatal("deleted before it was finished")
		}
		for _, p := range []*v1.Pod{pod, other} {
			if err := m.TerminatePod(p); err != nil {
				t.Fatal(err)
			}
		}
		advance(t, time.Minute)
		if !slices.Equal(api.deletes, []types.UID{pod.UID}) {
			t.Errorf("deleted %v", api.deletes)
		}
		if _, ok := m.Get(pod.UID); ok {
			t.Error("the entry is still there")
		}
		if _, ok := m.Get("kept"); !ok {
			t.Error("the other entry is gone")
		}
	})

	bubble(t, "8.6 a deleted pod is left alone while another sink still wants its status", func(t *testing.T) {
		pod := newPod(apps("a0"), deleted)
		api := newAPI(pod)
		var ready atomic.Bool
		slow := &recorder{answer: func(context.Context, int, Update) (StoreResult, error) {
			if !ready.Load() {
				return 0, errors.New("not now")
			}
			return Stored, nil
		}}
		m := started(t, Options{Sinks: []StatusSink{api, slow}})
		set(t, m, pod, withPhase(v1.PodFailed, scene(newPod(), "A T1")))
		for range 2 {
			if err := m.TerminatePod(pod); err != nil {
				t.Fatal(err)
			}
			advance(t, time.Minute)
		}
		if len(api.deletes) != 1 || api.reads > 2 {
			t.Errorf("%d deletes, %d reads", len(api.deletes), api.reads)
		}
		if _, ok := m.Get(pod.UID); !ok {
			t.Error("dropped while a sink has not got it")
		}
		ready.Store(true)
		advance(t, time.Minute)
		if _, ok := m.Get(pod.UID); ok || slow.updates[len(slow.updates)-1].Status.Phase != v1.PodFailed {
			t.Error("not dropped once every sink has it")
		}
	})

	bubble(t, "8.6 deletionTimestamp comes after the end", func(t *testing.T) {
		pod := newPod(apps("a0"))
		api := newAPI(pod)
		m := started(t, Options{Sinks: []StatusSink{api}})
		set(t, m, pod, withPhase(v1.PodSucceeded, scene(newPod(), "A T0")))
		synctest.Wait()
		if err := m.TerminatePod(pod); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		stores := len(api.stores)
		m.ObservePod(api.edit("web", deleted))
		synctest.Wait()
		if len(api.deletes) != 1 || len(api.stores) != stores {
			t.Errorf("%d deletes, %d stores after the deletion, %d before", len(api.deletes), len(api.stores), stores)
		}
	})

	bubble(t, "8.6, 8.7 a failing API is asked again until it answers", func(t *testing.T) {
		pod := newPod(apps("a0"), deleted)
		api := newAPI(pod)
		m := started(t, Options{Sinks: []StatusSink{api}})
		api.setFail(errors.New("unreachable"))
		set(t, m, pod, withPhase(v1.PodFailed, scene(newPod(), "A T3")))
		if err := m.TerminatePod(pod); err != nil {
			t.Fatal(err)
		}
		advance(t, 10*time.Minute)
		api.setFail(nil)
		advance(t, time.Minute)
		if len(api.deletes) != 1 || len(api.stores) != 1 || api.stores[0].Status.ContainerStatuses[0].State.Terminated.ExitCode != 3 {
			t.Errorf("%d deletes, stores %+v", len(api.deletes), api.stores)
		}
	})

	bubble(t, "edge 30 nothing to store, yet deletion is looked at", func(t *testing.T) {
		pod := newPod(apps("a0"), deleted)
		pod.Status = *withPhase(v1.PodFailed, scene(newPod(), "A T1"))
		pod.Status.StartTime = &metav1.Time{Time: t0}
		pod.Status.ObservedGeneration = 1
		judgeReadiness(&pod.Spec, &pod.Status)
		api := newAPI(pod)
		m := started(t, Options{Sinks: []StatusSink{api}})
		if err := m.TerminatePod(pod); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(api.stores) != 0 || len(api.deletes) != 1 {
			t.Errorf("%d stores, %d deletes", len(api.stores), len(api.deletes))
		}
	})

	bubble(t, "8.3 edge 19 a pod recreated under the same name is left alone", func(t *testing.T) {
		pod := newPod(apps("a0"))
		api := newAPI(newPod(uid("the new one"), apps("a0")))
		m := started(t, Options{Sinks: []StatusSink{api}})
		set(t, m, pod, withPhase(v1.PodRunning, scene(newPod(), "A R")))
		set(t, m, pod, withPhase(v1.PodRunning, scene(newPod(), "A T1")))
		advance(t, time.Hour)
		if len(api.stores) != 0 {
			t.Errorf("stored %+v", api.stores)
		}
	})

	bubble(t, "2.4 edge 5 a phase that is terminal at the API stays", func(t *testing.T) {
		pod := newPod(apps("a0"))
		api := newAPI(pod)
		m := started(t, Options{Sinks: []StatusSink{api}})
		api.edit("web", func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded })
		set(t, m, pod, withPhase(v1.PodFailed, scene(newPod(), "A T1")))
		synctest.Wait()
		if got := api.stores[0].Status; got.Phase != v1.PodSucceeded {
			t.Errorf("phase %s", got.Phase)
		}
	})
}

// liveMirrors is a translation that changes.
type liveMirrors struct {
	mu     sync.Mutex
	static types.UID
	mirror *v1.Pod
}

func (m *liveMirrors) set(mirror *v1.Pod) { m.mu.Lock(); m.mirror = mirror; m.mu.Unlock() }

func (m *liveMirrors) MirrorOf(*v1.Pod) *v1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mirror
}

func (m *liveMirrors) TranslateUID(u types.UID) types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mirror != nil && m.mirror.UID == u {
		return m.static
	}
	return u
}

func TestMirrorPods(t *testing.T) {
	bubble(t, "8.2 edge 20, edge 21", func(t *testing.T) {
		pod := newPod(static, apps("a0"))
		mirror := func(u types.UID) *v1.Pod { return newPod(uid(u), apps("a0"), deleted) }
		translate := &liveMirrors{static: pod.UID}
		api := newAPI()
		plain := &recorder{}
		m := started(t, Options{Sinks: []StatusSink{api, plain}, Mirrors: translate})
		set(t, m, pod, withPhase(v1.PodRunning, scene(newPod(), "A R")))
		synctest.Wait()
		if len(api.stores) != 0 || plain.count() != 1 {
			t.Errorf("without a mirror: %d at the API, %d at the plain sink", len(api.stores), plain.count())
		}

		api.mu.Lock()
		api.pods["web"] = mirror("m-1")
		api.mu.Unlock()
		translate.set(mirror("m-1"))
		m.ObservePod(mirror("m-1"))
		synctest.Wait()
		if len(api.stores) != 1 || api.stores[0].UID != "m-1" || plain.got(pod.UID)[0].UID != pod.UID {
			t.Errorf("stores %+v", api.stores)
		}

		api.mu.Lock()
		api.pods["web"] = mirror("m-2")
		api.mu.Unlock()
		translate.set(mirror("m-2"))
		m.ObservePod(mirror("m-2"))
		synctest.Wait()
		if len(api.stores) != 2 || api.stores[1].UID != "m-2" || api.stores[1].Status.Phase != v1.PodRunning {
			t.Errorf("stores %+v", api.stores)
		}

		if err := m.TerminatePod(pod); err != nil {
			t.Fatal(err)
		}
		advance(t, time.Minute)
		if len(api.deletes) != 0 {
			t.Error("a mirror pod was deleted")
		}
		if got := api.stores[len(api.stores)-1]; !got.Finished || got.Status.ContainerStatuses[0].State.Terminated == nil || got.Status.Phase == v1.PodFailed {
			t.Errorf("final status at the mirror: %+v", got)
		}
	})
}

// A sink without a reader is told that a pod is finished, even if the status is the one it already
// has (7.8).
func TestListeningSinkHearsThatAPodIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &recorder{}
		m := started(t, Options{Sinks: []StatusSink{sink}})
		pod := newPod(static)
		s := v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{
			Name: "app", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 3}},
		}}}
		for range 2 {
			if err := m.SetPodStatus(pod, s); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if got := sink.got(pod.UID); len(got) != 1 || got[0].Finished {
			t.Errorf("before the end: %+v", got)
		}
		for range 2 {
			if err := m.TerminatePod(pod); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if got := sink.got(pod.UID); len(got) != 2 || !got[1].Finished || got[1].Status.ContainerStatuses[0].State.Terminated.ExitCode != 3 {
			t.Errorf("after the end: %+v", got)
		}
	})
}
