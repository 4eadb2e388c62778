package status

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/internal/podinfo"
)

// managed is a manager without sinks on a fake clock.
func managed(t *testing.T, options Options) (*Manager, *clocktesting.FakeClock) {
	t.Helper()
	clk := clocktesting.NewFakeClock(t1)
	options.Clock = clk
	return NewManager(options), clk
}

// set is SetPodStatus that must succeed.
func set(t *testing.T, m *Manager, pod *v1.Pod, s *v1.PodStatus) {
	t.Helper()
	if err := m.SetPodStatus(pod, *s); err != nil {
		t.Fatal(err)
	}
}

// version is the version the manager has of a pod, 0 if none.
func version(m *Manager, uid types.UID) uint64 {
	list, _ := m.watch()
	for _, c := range list {
		if c.UID == uid {
			return c.Version
		}
	}
	return 0
}

// Spec/status.md 7.1, 7.3: a version per accepted change, none for
// what is equal.
func TestAcceptedChangeIsAVersion(t *testing.T) {
	m, _ := managed(t, Options{})
	pod := newPod()
	if _, ok := m.Get(pod.UID); ok {
		t.Error("a status before the first")
	}
	for i, step := range []struct {
		containers string
		want       uint64
	}{{"A W", 1}, {"A W", 1}, {"A R", 2}, {"A T1", 3}, {"A T1", 3}, {"A W1", 4}} {
		s := scene(newPod(), step.containers)
		pod.Spec.Containers = nil
		apps("a0")(pod)
		s.Phase = v1.PodRunning
		set(t, m, pod, s)
		if got := version(m, pod.UID); got != step.want {
			t.Errorf("step %d, %s: version %d, want %d", i, step.containers, got, step.want)
		}
	}
}

// 7.2: neither side can change the other's status.
func TestStatusesAreCopied(t *testing.T) {
	m, _ := managed(t, Options{})
	pod := newPod(apps("a0"))
	s := scene(newPod(), "A R")
	set(t, m, pod, s)
	s.ContainerStatuses[0].Name = "changed"
	s.ContainerStatuses[0].State.Running.StartedAt = metav1.Time{}
	if got, _ := m.Get(pod.UID); got.ContainerStatuses[0].Name != "a0" || got.ContainerStatuses[0].State.Running.StartedAt.IsZero() {
		t.Error("the cache shares memory with the caller")
	}
}

// TestUpdateSteps: spec/status.md 7.3 (2)-(7), 7.5.
func TestUpdateSteps(t *testing.T) {
	t.Run("step 3: illegal update is dropped whole, edge 7", func(t *testing.T) {
		m, _ := managed(t, Options{})
		pod := newPod(policy(onFailure), apps("a0"))
		set(t, m, pod, scene(newPod(), "A T0"))
		next := scene(newPod(), "A W")
		next.Message = "new"
		var typed *transitionError
		if err := m.SetPodStatus(pod, *next); !errors.As(err, &typed) || typed.Container != "a0" || typed.UID != pod.UID {
			t.Errorf("error %v", err)
		}
		if got, _ := m.Get(pod.UID); got.Message != "" || got.ContainerStatuses[0].State.Terminated == nil || version(m, pod.UID) != 1 {
			t.Errorf("the cache changed: %+v", got)
		}
	})
	t.Run("step 1: the API status is the old one", func(t *testing.T) {
		m, _ := managed(t, Options{})
		pod := newPod(policy(never), apps("a0"))
		pod.Status = *scene(newPod(), "A T1")
		if err := m.SetPodStatus(pod, *scene(newPod(), "A W")); err == nil {
			t.Error("a container left Terminated")
		}
	})
	t.Run("step 1, 9.12: a restored status is the old one and the one to get", func(t *testing.T) {
		loaded := scene(newPod(), "A T1")
		loaded.StartTime = &metav1.Time{Time: t0}
		m, _ := managed(t, Options{})
		pod := newPod(policy(never), apps("a0"))
		pod.Status = v1.PodStatus{} // it has no other writer
		m.Restore(Restored{Pod: pod, Status: loaded, Version: 3})
		if got, ok := m.Get(pod.UID); !ok || got.ContainerStatuses[0].State.Terminated == nil {
			t.Error("not to be got")
		}
		if _, ok := m.Get("other"); ok {
			t.Error("another pod has it")
		}
		if err := m.SetPodStatus(pod, *scene(newPod(), "A W")); err == nil {
			t.Error("a container left Terminated")
		}
		set(t, m, pod, scene(newPod(), "A T1"))
		if got, _ := m.Get(pod.UID); !got.StartTime.Time.Equal(t0) {
			t.Error("start time not kept")
		}
	})
	t.Run("steps 4, 5, 6: times and generation", func(t *testing.T) {
		m, clk := managed(t, Options{})
		pod := newPod(apps("a0"))
		pod.Generation = 5
		with := func(status v1.ConditionStatus, reason string) *v1.PodStatus {
			return &v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: status, Reason: reason}}}
		}
		set(t, m, pod, with(v1.ConditionFalse, "a"))
		first, _ := m.Get(pod.UID)
		if !first.StartTime.Time.Equal(t1) || first.ObservedGeneration != 5 || !first.Conditions[0].LastTransitionTime.Time.Equal(t1) {
			t.Errorf("first: %+v", first)
		}
		clk.SetTime(t2)
		pod = pod.DeepCopy()
		pod.Generation = 4
		set(t, m, pod, with(v1.ConditionFalse, "b"))
		second, _ := m.Get(pod.UID)
		if !second.Conditions[0].LastTransitionTime.Time.Equal(t1) || second.Conditions[0].Reason != "b" {
			t.Errorf("edge 11: %+v", second.Conditions)
		}
		if second.ObservedGeneration != 5 || !second.StartTime.Time.Equal(t1) {
			t.Errorf("generation %d, start %v", second.ObservedGeneration, second.StartTime)
		}
		stale := with(v1.ConditionTrue, "")
		stale.Conditions[0].LastTransitionTime = metav1.Time{Time: t1}
		set(t, m, pod, stale)
		if third, _ := m.Get(pod.UID); !third.Conditions[0].LastTransitionTime.Time.Equal(t2) {
			t.Errorf("a new value with the time of the old one: %v", third.Conditions[0].LastTransitionTime)
		}
	})
	t.Run("step 7: normal form", func(t *testing.T) {
		m, _ := managed(t, Options{})
		pod := newPod(inits("z", "b"), apps("y", "x"))
		s := &v1.PodStatus{
			StartTime:             &metav1.Time{Time: t0.Add(7)},
			InitContainerStatuses: []v1.ContainerStatus{*state("b", "T0"), *state("z", "T0")},
			ContainerStatuses:     []v1.ContainerStatus{*state("y", "T0"), *state("x", "T0")},
		}
		s.ContainerStatuses[0].State.Terminated.Message = strings.Repeat("m", 5000)
		s.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.Time{Time: t0.Add(9)}
		set(t, m, pod, s)
		got, _ := m.Get(pod.UID)
		if got.InitContainerStatuses[0].Name != "z" || got.ContainerStatuses[0].Name != "x" {
			t.Error("lists not sorted")
		}
		end := got.ContainerStatuses[1].State.Terminated
		if len(end.Message) != 3072 || !end.FinishedAt.Time.Equal(t0) || !got.StartTime.Time.Equal(t0) {
			t.Errorf("message %d bytes, finished %v, start %v", len(end.Message), end.FinishedAt, got.StartTime)
		}
		set(t, m, pod, s)
		if version(m, pod.UID) != 1 {
			t.Error("the same status once more made a version")
		}
	})
	t.Run("step 8, edge 30: forced while deleting", func(t *testing.T) {
		m, _ := managed(t, Options{})
		pod := newPod(apps("a0"), deleted)
		set(t, m, pod, scene(newPod(), "A R"))
		set(t, m, pod, scene(newPod(), "A R"))
		if got := version(m, pod.UID); got != 2 {
			t.Errorf("version %d, want 2", got)
		}
		if _, w := m.watch(); w.next != 1 {
			t.Errorf("watchers saw %d changes, want 1", w.next)
		}
	})
	t.Run("corrections are logged, and not under the lock", func(t *testing.T) {
		var m *Manager
		var lines []string
		log := funcr.New(func(_, args string) {
			_, _ = m.Get("uid-1") // would deadlock
			lines = append(lines, args)
		}, funcr.Options{})
		m, _ = managed(t, Options{Logger: log})
		pod := newPod(policy(never), apps("a0"))
		set(t, m, pod, withPhase(v1.PodFailed, scene(newPod(), "A T1")))
		if err := m.SetPodStatus(pod, *scene(newPod(), "A W")); err == nil {
			t.Error("illegal and accepted")
		}
		if err := m.TerminatePod(pod); err != nil {
			t.Error(err)
		}
		set(t, m, pod, withPhase(v1.PodRunning, scene(newPod(), "A T1")))
		if len(lines) != 3 || !strings.Contains(lines[0], "left Terminated") || !strings.Contains(lines[1], "stays finished") || !strings.Contains(lines[2], "the phase stays") {
			t.Errorf("%q", lines)
		}
	})
	t.Run("step 2: a static pod that has ended stays finished while it is told again", func(t *testing.T) {
		m, _ := managed(t, Options{})
		pod := newPod(policy(never), apps("a0"), static)
		set(t, m, pod, withPhase(v1.PodFailed, scene(newPod(), "A T1")))
		if err := m.TerminatePod(pod); err != nil {
			t.Fatal(err)
		}
		told, _ := m.Get(pod.UID)
		set(t, m, pod, &told)
		if e := m.pods[pod.UID]; !e.finished || e.version != 2 {
			t.Errorf("finished %v in version %d", e.finished, e.version)
		}
	})
	t.Run("2.4: a terminal phase is never left", func(t *testing.T) {
		m, _ := managed(t, Options{})
		pod := newPod(apps("a0"))
		set(t, m, pod, &v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted"})
		set(t, m, pod, &v1.PodStatus{Phase: v1.PodRunning})
		set(t, m, pod, &v1.PodStatus{Phase: v1.PodSucceeded})
		if got, _ := m.Get(pod.UID); got.Phase != v1.PodFailed || got.Reason != "Evicted" || version(m, pod.UID) != 1 {
			t.Errorf("%s (%s), version %d", got.Phase, got.Reason, version(m, pod.UID))
		}
	})
}

// TestSetContainerReadiness: spec/status.md 7.6, edge 14.
func TestSetContainerReadiness(t *testing.T) {
	m, clk := managed(t, Options{})
	pod := newPod(apps("a0", "a1"), sidecars("s"))
	s := scene(newPod(), "A R, A R")
	s.Phase = v1.PodRunning
	s.InitContainerStatuses = []v1.ContainerStatus{*state("s", "R")}
	m.SetContainerReadiness(pod.UID, id("a0", 0), false) // unknown pod
	set(t, m, pod, s)
	judge := func(what string, want uint64, ready, containers v1.ConditionStatus) {
		t.Helper()
		got, _ := m.Get(pod.UID)
		if v := version(m, pod.UID); v != want {
			t.Errorf("%s: version %d, want %d", what, v, want)
		}
		if condition(&got, v1.PodReady).Status != ready || condition(&got, v1.ContainersReady).Status != containers {
			t.Errorf("%s: %+v", what, got.Conditions)
		}
	}
	m.SetContainerReadiness(pod.UID, id("a0", 0), true)
	judge("the same value", 1, "", "")
	m.SetContainerReadiness(pod.UID, id("a0", 7), false)
	judge("another run", 1, "", "")
	clk.SetTime(t2)
	m.SetContainerReadiness(pod.UID, id("a0", 0), false)
	judge("not ready", 2, v1.ConditionFalse, v1.ConditionFalse)
	got, _ := m.Get(pod.UID)
	if got.ContainerStatuses[0].Ready || !got.ContainerStatuses[1].Ready {
		t.Error("the wrong container changed")
	}
	if c := condition(&got, v1.PodReady); !c.LastTransitionTime.Time.Equal(t2) || c.Reason != reasonNotReady {
		t.Errorf("%+v", c)
	}
	m.SetContainerReadiness(pod.UID, id("a0", 0), true)
	judge("ready again", 3, v1.ConditionTrue, v1.ConditionTrue)
	m.SetContainerReadiness(pod.UID, id("s", 0), false)
	judge("sidecar", 4, v1.ConditionFalse, v1.ConditionFalse)

	stopped := scene(newPod(), "A T1, A R")
	stopped.Phase = v1.PodRunning
	set(t, m, pod, stopped)
	before := version(m, pod.UID)
	m.SetContainerReadiness(pod.UID, id("a0", 0), true)
	if version(m, pod.UID) != before {
		t.Error("a container that does not run became ready")
	}
}

// TestSetContainerStartup: spec/status.md 7.7.
func TestSetContainerStartup(t *testing.T) {
	m, _ := managed(t, Options{})
	pod := newPod(apps("a0"))
	s := scene(newPod(), "A r")
	s.ContainerStatuses[0].Started = nil
	set(t, m, pod, s)
	m.SetContainerStartup(pod.UID, id("a0", 0), false) // unset is not false
	m.SetContainerStartup(pod.UID, id("a0", 0), false)
	if got := version(m, pod.UID); got != 2 {
		t.Errorf("version %d, want 2", got)
	}
	m.SetContainerStartup(pod.UID, id("a0", 0), true)
	m.SetContainerStartup(pod.UID, id("a0", 1), false)
	if got, _ := m.Get(pod.UID); !*got.ContainerStatuses[0].Started || got.ContainerStatuses[0].Ready || version(m, pod.UID) != 3 {
		t.Errorf("version %d, %+v", version(m, pod.UID), got.ContainerStatuses[0])
	}
}

// TestTerminatePod is spec/status.md 7.8 and 7.9.
func TestTerminatePod(t *testing.T) {
	const lost = "T:137:ContainerStatusUnknown"
	for _, test := range []struct {
		rule       string
		options    []podOption
		containers string
		phase      v1.PodPhase
		want       []string // init, then app
		wantPhase  v1.PodPhase
	}{
		{rule: "ends seen are kept", containers: "A T0, A T3", phase: v1.PodRunning, want: []string{"T:000:", "T:003:"}, wantPhase: v1.PodFailed},
		{rule: "terminal phase is kept", containers: "A T0", phase: v1.PodSucceeded, want: []string{"T:000:"}, wantPhase: v1.PodSucceeded},
		{rule: "running to the last", containers: "A R, A W1", phase: v1.PodRunning, want: []string{lost, lost}, wantPhase: v1.PodFailed},
		{rule: "7.9 nothing ran, no init", containers: "A W", phase: v1.PodPending, want: []string{lost}, wantPhase: v1.PodFailed},
		{rule: "7.9 edge 17 nothing ran, two init", containers: "I W, I W, A W", phase: v1.PodPending, want: []string{lost, "W:ContainerCreating", "W:ContainerCreating"}, wantPhase: v1.PodFailed},
		{rule: "prefix of init", containers: "I T0, I R, I W, A W", phase: v1.PodPending, want: []string{"T:000:", lost, "W:ContainerCreating", "W:ContainerCreating"}, wantPhase: v1.PodFailed},
		{rule: "last init succeeded", containers: "I T0, A W", phase: v1.PodPending, want: []string{"T:000:", lost}, wantPhase: v1.PodFailed},
		{rule: "last init succeeded before", containers: "I W0, A W", phase: v1.PodPending, want: []string{lost, lost}, wantPhase: v1.PodFailed},
		{rule: "last init is a started sidecar", containers: "S R, A W", phase: v1.PodPending, want: []string{lost, lost}, wantPhase: v1.PodFailed},
		{rule: "last init is a sidecar not started", containers: "S r, A W", phase: v1.PodPending, want: []string{lost, "W:ContainerCreating"}, wantPhase: v1.PodFailed},
		{rule: "edge 20 static pod", options: []podOption{static}, containers: "A T0", phase: v1.PodRunning, want: []string{"T:000:"}, wantPhase: v1.PodRunning},
	} {
		t.Run(test.rule, func(t *testing.T) {
			m, _ := managed(t, Options{})
			pod := newPod(test.options...)
			s := scene(pod, test.containers)
			s.Phase = test.phase
			set(t, m, pod, s)
			if err := m.TerminatePod(pod); err != nil {
				t.Fatal(err)
			}
			got, _ := m.Get(pod.UID)
			var states []string
			for _, list := range [][]v1.ContainerStatus{got.InitContainerStatuses, got.ContainerStatuses} {
				for i := range list {
					states = append(states, briefState(list[i].State))
					if list[i].State.Terminated == nil && list[i].Ready {
						t.Errorf("%s is ready", list[i].Name)
					}
				}
			}
			if d := cmp.Diff(test.want, states); d != "" || got.Phase != test.wantPhase {
				t.Errorf("phase %s; -want +got:\n%s", got.Phase, d)
			}
			list, _ := m.watch()
			if !list[0].Finished || list[0].Version != 2 {
				t.Errorf("%+v", list[0])
			}
			// 7.3 (2): finished is not taken back.
			later := got
			later.Message = "late"
			set(t, m, pod, &later)
			if list, _ = m.watch(); list[0].Finished == podinfo.Static(pod) {
				t.Errorf("after a late status: %+v", list[0])
			}
		})
	}
	t.Run("nothing cached: the API status", func(t *testing.T) {
		m, _ := managed(t, Options{})
		pod := newPod(apps("a0"))
		pod.Status = *scene(newPod(), "A R")
		if err := m.TerminatePod(pod); err != nil {
			t.Fatal(err)
		}
		if got, _ := m.Get(pod.UID); briefState(got.ContainerStatuses[0].State) != lost || got.Phase != v1.PodFailed {
			t.Errorf("%+v", got)
		}
	})
}

// mirrors is a fixed translation.
type mirrors map[types.UID]*v1.Pod // by static UID

func (m mirrors) TranslateUID(uid types.UID) types.UID {
	for static, mirror := range m {
		if mirror.UID == uid {
			return static
		}
	}
	return uid
}

func (m mirrors) MirrorOf(pod *v1.Pod) *v1.Pod { return m[pod.UID] }

// TestUnseenEndOfADebugContainerHoldsNothingBack: 7.8, 8.5: a debug container that still showed as
// running when the pod ended does not keep sinks from its end.
func TestUnseenEndOfADebugContainerHoldsNothingBack(t *testing.T) {
	bubble(t, "debug", func(t *testing.T) {
		sink := &recorder{}
		m := started(t, Options{Sinks: []StatusSink{sink}})
		pod := newPod(apps("main"), debuggers("runs", "over"))
		s := scene(newPod(), "A R")
		s.Phase, s.ContainerStatuses[0].Name = v1.PodRunning, "main"
		s.EphemeralContainerStatuses = []v1.ContainerStatus{*state("over", "T3"), *state("runs", "R")}
		s.EphemeralContainerStatuses[1].Started = nil
		set(t, m, pod, s)
		if err := m.TerminatePod(pod); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		got := sink.got(pod.UID)
		last := got[len(got)-1].Status
		if last.Phase != v1.PodFailed {
			t.Fatalf("the sink has %s", last.Phase)
		}
		over, runs := last.EphemeralContainerStatuses[0], last.EphemeralContainerStatuses[1]
		if over.State.Terminated.ExitCode != 3 || runs.State.Terminated.Reason != reasonUnknown || runs.State.Terminated.ContainerID != runs.ContainerID || runs.Started != nil {
			t.Errorf("%+v, %+v", over, runs)
		}
	})
}

// Spec/status.md 7.10; known UIDs include mirrors.
func TestOrphanedStatusesAreRemoved(t *testing.T) {
	mirror := newPod(uid("mirror-1"))
	m, _ := managed(t, Options{Mirrors: mirrors{"static-1": mirror}})
	for _, u := range []types.UID{"static-1", "kept", "b-orphan", "a-orphan"} {
		set(t, m, newPod(uid(u), apps("a0")), scene(newPod(), "A R"))
	}
	_, w := m.watch()
	m.RemoveOrphanedStatuses(map[types.UID]struct{}{"mirror-1": {}, "kept": {}})
	for u, want := range map[types.UID]bool{"static-1": true, "mirror-1": true, "kept": true, "a-orphan": false, "b-orphan": false} {
		if _, ok := m.Get(u); ok != want {
			t.Errorf("%s: known %t", u, ok)
		}
	}
	for _, want := range []types.UID{"a-orphan", "b-orphan"} {
		if c, err := w.wait(t.Context(), nil); err != nil || !c.Forgotten || c.UID != want {
			t.Errorf("change %+v, %v", c, err)
		}
	}
	m.Forget("kept")
	m.Forget("kept")
	if _, ok := m.Get("kept"); ok {
		t.Error("not forgotten")
	}
}

// Changes come in order, and a watcher that lags gets a gap instead of blocking.
func TestWatchTellsChangesInOrderOrAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewManager(Options{History: 3})
		pod := newPod(apps("a0"))
		_, from := m.watch()
		got := make(chan Change)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			for {
				c, err := from.wait(ctx, nil)
				if err != nil {
					done <- err
					return
				}
				got <- c
			}
		}()
		for i, how := range []string{"A W", "A R", "A T1"} {
			set(t, m, pod, scene(newPod(), how))
			if c := <-got; c.Version != uint64(i+1) || c.Finished || c.Forgotten || briefState(c.Status.ContainerStatuses[0].State) == "" {
				t.Errorf("change %+v", c)
			}
		}
		synctest.Wait() // the watcher waits for the next one
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}

		again := &watcher{manager: m, next: 1}
		if c, err := again.wait(t.Context(), nil); err != nil || c.Version != 2 {
			t.Errorf("resumed at %+v, %v", c, err)
		}
		for _, how := range []string{"A W1", "A R", "A T1"} {
			set(t, m, pod, scene(newPod(), how))
		}
		lagging := again
		for range 2 {
			if _, err := lagging.wait(t.Context(), nil); !errors.Is(err, ErrGap) {
				t.Errorf("error %v, want ErrGap", err)
			}
		}
		list, w := m.watch()
		if len(list) != 1 || list[0].Version != 6 {
			t.Errorf("list %+v", list)
		}
		set(t, m, pod, scene(newPod(), "A R"))
		if c, err := w.wait(t.Context(), nil); err != nil || c.Version != 7 {
			t.Errorf("after the list: %+v, %v", c, err)
		}
	})
}

// A second Run is an error, and Run waits for its context.
func TestSecondRunIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewManager(Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		first := make(chan error)
		go func() { first <- m.Run(ctx) }()
		synctest.Wait()
		if err := m.Run(ctx); !errors.Is(err, errRunning) {
			t.Errorf("second Run: %v", err)
		}
		if err := <-first; err != nil {
			t.Errorf("first Run: %v", err)
		}
	})
}

// Old statuses that no watcher can read are not kept: each change takes a few kilobytes.
func TestHistoryIsKeptFromTheFirstWatchOn(t *testing.T) {
	m := NewManager(Options{History: 2})
	pod := newPod(apps("a0"))
	set(t, m, pod, scene(newPod(), "A W"))
	if m.history.ring != nil {
		t.Errorf("changes are kept without a watcher: %+v", m.history.ring)
	}
	_, w := m.watch()
	for _, how := range []string{"A R", "A T1"} {
		set(t, m, pod, scene(newPod(), how))
	}
	for want := uint64(2); want <= 3; want++ {
		if c, err := w.wait(t.Context(), nil); err != nil || c.Version != want {
			t.Errorf("version %d, %v; want %d", c.Version, err, want)
		}
	}
	if _, err := (&watcher{manager: m}).wait(t.Context(), nil); !errors.Is(err, ErrGap) {
		t.Errorf("a change of before the first watcher: %v, want a gap", err)
	}
}
