package statustest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/watchtest"
	"github.com/podwright/podwright/status"
)

// subject adds what the cases share.
type subject struct {
	Subject
}

// pod makes a pod and, if the subject needs it, makes it exist.
func (s *subject) pod(uid, name string) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Namespace: "test", Name: name},
		Spec:       v1.PodSpec{RestartPolicy: v1.RestartPolicyNever, Containers: []v1.Container{{Name: "main", Image: "host"}}},
		Status:     v1.PodStatus{Phase: v1.PodPending},
	}
	if s.AddPod != nil {
		s.AddPod(p)
	}
	return p
}

// update makes an update for a pod.
func update(pod *v1.Pod, version uint64, message string) status.Update {
	return status.Update{
		PodRef:  status.PodRef{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name},
		Version: version,
		Status:  &v1.PodStatus{Phase: v1.PodRunning, Message: message},
	}
}

// store calls Store, which must return Stored, or Unchanged if allowed.
func (s *subject) store(t *watchtest.T, u status.Update, unchanged bool) {
	t.Helper()
	result, err := s.Sink.Store(t.Context(), u)
	if err != nil || result != status.Stored && !(unchanged && result == status.Unchanged) {
		t.Fatalf("Store of version %d: %v, %v", u.Version, result, err)
	}
}

// newest checks the newest stored status of a pod.
func (s *subject) newest(t *watchtest.T, pod *v1.Pod, want *v1.PodStatus) {
	t.Helper()
	list := s.Stored(pod.UID)
	if len(list) == 0 {
		t.Fatalf("nothing stored for %s", pod.UID)
	}
	if got, want := text(t, &list[len(list)-1]), text(t, want); !bytes.Equal(got, want) {
		t.Errorf("stored for %s:\n%s\nwant:\n%s", pod.UID, got, want)
	}
}

// text returns a status as it goes over the wire.
func text(t *watchtest.T, s *v1.PodStatus) []byte {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func storesOne(t *watchtest.T, s *subject) {
	pod := s.pod("u1", "one")
	u := update(pod, 1, "hello")
	s.store(t, u, false)
	s.newest(t, pod, u.Status)
}

func keepsEveryField(t *watchtest.T, s *subject) {
	pod := s.pod("u1", "one")
	at := metav1.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	started := true
	u := update(pod, 1, "")
	u.Finished = true
	u.Status = &v1.PodStatus{
		ObservedGeneration: 3, Phase: v1.PodFailed, Reason: "Evicted", Message: "zu wenig Platz \u2013 \"quoted\"\nsecond line",
		HostIP: "192.168.0.1", HostIPs: []v1.HostIP{{IP: "192.168.0.1"}}, PodIP: "10.0.0.7", PodIPs: []v1.PodIP{{IP: "10.0.0.7"}, {IP: "fd00::7"}},
		StartTime: &at, QOSClass: v1.PodQOSBurstable,
		Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionFalse, Reason: "PodFailed", LastTransitionTime: at, ObservedGeneration: 3}},
		ContainerStatuses: []v1.ContainerStatus{
			{Name: "a", State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: at}}, Ready: true, Started: &started, RestartCount: 2, ContainerID: "test://a", Image: "i", ImageID: "d"},
			{Name: "b", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}, LastTerminationState: v1.ContainerState{
				Terminated: &v1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled", Message: strings.Repeat("x", 12288), StartedAt: at, FinishedAt: at, ContainerID: "test://b"},
			}},
		},
	}
	s.store(t, u, false)
	s.newest(t, pod, u.Status)
}

func takesNewer(t *watchtest.T, s *subject) {
	pod := s.pod("u1", "one")
	for _, version := range []uint64{1, 2, 7} {
		u := update(pod, version, fmt.Sprint("version ", version))
		s.store(t, u, false)
		s.newest(t, pod, u.Status)
	}
}

func takesTwice(t *watchtest.T, s *subject) {
	pod := s.pod("u1", "one")
	u := update(pod, 1, "the same")
	s.store(t, u, false)
	s.store(t, u, true)
	again := update(pod, 2, "the same")
	again.Base = u.Status
	s.store(t, again, true)
	s.newest(t, pod, u.Status)
}

func takesRestart(t *watchtest.T, s *subject) {
	pod := s.pod("u1", "one")
	s.store(t, update(pod, 9, "before the restart"), false)
	u := update(pod, 1, "after the restart")
	s.store(t, u, false)
	s.newest(t, pod, u.Status)
}

func leavesArguments(t *watchtest.T, s *subject) {
	pod := s.pod("u1", "one")
	u := update(pod, 1, "mine")
	u.Base = &v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{{Type: "example.com/x", Status: v1.ConditionTrue}}}
	u.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	wantStatus, wantBase := text(t, u.Status), text(t, u.Base)
	s.store(t, u, false)
	if !bytes.Equal(wantStatus, text(t, u.Status)) || !bytes.Equal(wantBase, text(t, u.Base)) {
		t.Error("Store changed its arguments")
	}
}

func tellsPodsApart(t *watchtest.T, s *subject) {
	one, two := s.pod("u1", "one"), s.pod("u2", "two")
	first, second := update(one, 1, "first"), update(two, 1, "second")
	s.store(t, first, false)
	s.store(t, second, false)
	s.newest(t, one, first.Status)
	s.newest(t, two, second.Status)
}

func takesMany(t *watchtest.T, s *subject) {
	const pods, versions = 20, 10
	list := make([]*v1.Pod, pods)
	for i := range list {
		list[i] = s.pod(fmt.Sprint("u", i), fmt.Sprint("pod-", i))
	}
	var wg sync.WaitGroup
	for _, pod := range list {
		wg.Go(func() {
			for version := range versions {
				u := update(pod, uint64(version+1), fmt.Sprint(version))
				if result, err := s.Sink.Store(t.Context(), u); err != nil || result != status.Stored {
					t.Errorf("Store of %s version %d: %v, %v", pod.UID, version+1, result, err)
				}
			}
		})
	}
	wg.Wait()
	for _, pod := range list {
		last := -1
		for _, stored := range s.Stored(pod.UID) {
			var n int
			if _, err := fmt.Sscan(stored.Message, &n); err != nil || n <= last {
				t.Errorf("%s: %q after %d", pod.UID, stored.Message, last)
			}
			last = n
		}
		if last != versions-1 {
			t.Errorf("%s ends at %d", pod.UID, last)
		}
	}
}

func survivesEndedContext(t *watchtest.T, s *subject) {
	pod := s.pod("u1", "one")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// The sink may fail or succeed; it must only say which.
	result, err := s.Sink.Store(ctx, update(pod, 1, "too late"))
	if (err == nil) != (result == status.Stored || result == status.Unchanged) {
		t.Errorf("Store: %v, %v", result, err)
	}
	if err == nil {
		if list := s.Stored(pod.UID); len(list) != 1 {
			t.Errorf("said %v and stored %d", result, len(list))
		}
	}
	u := update(pod, 2, "in time")
	s.store(t, u, false)
	s.newest(t, pod, u.Status)
}

func recovers(t *watchtest.T, s *subject) {
	if s.Break == nil {
		t.Skip("the subject cannot break its sink")
	}
	pod := s.pod("u1", "one")
	first := update(pod, 1, "before")
	s.store(t, first, false)
	s.Break(true)
	for range 3 {
		if result, err := s.Sink.Store(t.Context(), update(pod, 2, "lost")); err == nil {
			t.Errorf("a broken sink said %v", result)
		}
	}
	s.Break(false)
	s.newest(t, pod, first.Status)
	u := update(pod, 3, "after")
	s.store(t, u, false)
	s.newest(t, pod, u.Status)
}

func givesUp(t *watchtest.T, s *subject) {
	if s.Block == nil {
		t.Skip("the subject cannot block its sink")
	}
	pod := s.pod("u1", "one")
	s.Block(true)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := s.Sink.Store(ctx, update(pod, 1, "stuck"))
		failed <- err
	}()
	cancel()
	if err := <-failed; err == nil {
		t.Error("a blocked sink stored")
	}
	s.Block(false)
	u := update(pod, 2, "free")
	s.store(t, u, false)
	s.newest(t, pod, u.Status)
}

func knowsGone(t *watchtest.T, s *subject) {
	if s.AddPod == nil {
		t.Skip("the sink takes any pod")
	}
	stranger := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u9", Namespace: "test", Name: "stranger"}}
	if result, err := s.Sink.Store(t.Context(), update(stranger, 1, "")); err != nil || result != status.Gone {
		t.Errorf("Store: %v, %v; want gone", result, err)
	}
}

func knowsRecreated(t *watchtest.T, s *subject) {
	if s.AddPod == nil {
		t.Skip("the sink takes any pod")
	}
	old := s.pod("u1", "one")
	s.store(t, update(old, 1, "old"), false)
	fresh := s.pod("u2", "one")
	u := update(fresh, 1, "new")
	s.store(t, u, false)
	if result, err := s.Sink.Store(t.Context(), update(old, 2, "old again")); err != nil || result != status.Recreated {
		t.Errorf("Store: %v, %v; want recreated", result, err)
	}
	s.newest(t, fresh, u.Status)
}

func readsPods(t *watchtest.T, s *subject) {
	reader, ok := s.Sink.(status.PodReader)
	if !ok {
		t.Skip("the sink cannot read")
	}
	pod := s.pod("u1", "one")
	u := update(pod, 1, "readable")
	s.store(t, u, false)
	got, err := reader.ReadPod(t.Context(), u.PodRef)
	if err != nil || got == nil || got.UID != pod.UID || !bytes.Equal(text(t, &got.Status), text(t, u.Status)) {
		t.Errorf("ReadPod: %+v, %v", got, err)
	}
	got, err = reader.ReadPod(t.Context(), status.PodRef{UID: "u9", Namespace: "test", Name: "stranger"})
	if err != nil || got != nil {
		t.Errorf("ReadPod of a stranger: %+v, %v", got, err)
	}
}

func deletesPods(t *watchtest.T, s *subject) {
	deleter, ok := s.Sink.(status.PodDeleter)
	if !ok {
		t.Skip("the sink cannot delete")
	}
	pod := s.pod("u1", "one")
	u := update(pod, 1, "last")
	s.store(t, u, false)
	other := u.PodRef
	other.UID = "u0"
	if err := deleter.DeletePod(t.Context(), other); err != nil {
		t.Errorf("delete of a former pod of this name: %v", err)
	}
	u.Version = 2
	s.store(t, u, true) // still there
	for range 2 {
		if err := deleter.DeletePod(t.Context(), u.PodRef); err != nil {
			t.Errorf("delete: %v", err)
		}
	}
	if result, err := s.Sink.Store(t.Context(), u); err != nil || result != status.Gone {
		t.Errorf("Store after the deletion: %v, %v; want gone", result, err)
	}
}

// hearsForgotten: a database may delete its row, and the UID may come back.
func hearsForgotten(t *watchtest.T, s *subject) {
	if _, ok := s.Sink.(status.PodReader); ok {
		t.Skip("a sink that reads pods is not told")
	}
	pod := s.pod("u1", "one")
	s.store(t, update(pod, 1, "runs"), false)
	last := update(pod, 2, "has ended")
	last.Status.Phase, last.Finished = v1.PodSucceeded, true
	s.store(t, last, false)
	forgotten := last
	forgotten.Version, forgotten.Forgotten = 3, true
	s.store(t, forgotten, true)
	next := update(s.pod("u1", "one"), 1, "runs again")
	s.store(t, next, false)
	s.newest(t, pod, next.Status)
}

// life returns what a manager is given for one pod, in order.
func life() []v1.PodStatus {
	container := func(state v1.ContainerState) []v1.ContainerStatus {
		return []v1.ContainerStatus{{Name: "main", Image: "host", State: state, Ready: state.Running != nil}}
	}
	ready := func(s v1.ConditionStatus) []v1.PodCondition {
		return []v1.PodCondition{{Type: v1.PodReady, Status: s}, {Type: v1.ContainersReady, Status: s}}
	}
	at := metav1.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	return []v1.PodStatus{
		{Phase: v1.PodPending, ContainerStatuses: container(v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}), Conditions: ready(v1.ConditionFalse)},
		{Phase: v1.PodRunning, ContainerStatuses: container(v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: at}}), Conditions: ready(v1.ConditionTrue)},
		{Phase: v1.PodFailed, ContainerStatuses: container(v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 3, FinishedAt: at}}), Conditions: ready(v1.ConditionTrue)},
	}
}

// run runs a manager on the sink while f runs.
func (s *subject) run(t *watchtest.T, f func(m *status.Manager, wait func())) {
	t.Helper()
	m := status.NewManager(status.Options{Sinks: []status.StatusSink{s.Sink}})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := m.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	defer wg.Wait()
	defer cancel()
	f(m, func() {
		if err := m.Flush(ctx); err != nil {
			t.Errorf("Flush: %v", err)
		}
	})
}

func followsLife(t *watchtest.T, s *subject) {
	pod := s.pod("u1", "one")
	s.run(t, func(m *status.Manager, wait func()) {
		for _, step := range life() {
			for range 2 { // the second is no change and must not arrive
				if err := m.SetPodStatus(pod, step); err != nil {
					t.Error(err)
				}
				wait()
			}
		}
	})
	list := s.Stored(pod.UID)
	if len(list) == 0 || len(list) > len(life()) {
		t.Fatalf("%d statuses stored for %d transitions", len(list), len(life()))
	}
	last := list[len(list)-1]
	if last.Phase != v1.PodFailed || last.ContainerStatuses[0].State.Terminated.ExitCode != 3 {
		t.Errorf("ends with %s", text(t, &last))
	}
	for _, c := range last.Conditions {
		if (c.Type == v1.PodReady || c.Type == v1.ContainersReady) && c.Status != v1.ConditionFalse {
			t.Errorf("%s is %s beside phase Failed", c.Type, c.Status)
		}
	}
}

func followsRestart(t *watchtest.T, s *subject) {
	pod := s.pod("u1", "one")
	for _, upTo := range []int{2, 3} {
		s.run(t, func(m *status.Manager, wait func()) {
			for _, step := range life()[:upTo] {
				if err := m.SetPodStatus(pod, step); err != nil {
					t.Error(err)
				}
			}
			wait()
		})
	}
	list := s.Stored(pod.UID)
	if len(list) == 0 || list[len(list)-1].Phase != v1.PodFailed {
		t.Errorf("ends with %+v", list)
	}
}
