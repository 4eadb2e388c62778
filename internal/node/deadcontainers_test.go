package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/internal/rule"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
)

// machine is what runs on a node, and what collects its garbage.
type machine struct {
	calls
	views   map[types.UID]*runtime.PodStatus
	actions []pods.GCAction
	policy  pods.GCPolicy
	err     error
}

func (m *machine) Get(uid types.UID) (*runtime.PodStatus, error) {
	if v := m.views[uid]; v != nil {
		return v, nil
	}
	return nil, errors.New("not read")
}

func (m *machine) ChangedSince(uint64) pleg.Changes {
	return pleg.Changes{UIDs: []types.UID{"web", "unread"}}
}

func (m *machine) Died(status *runtime.PodStatus, ids ...string) {
	m.add(string(status.UID) + " " + strings.Join(ids, " "))
}

func (m *machine) PlanGarbageCollect(_ context.Context, policy pods.GCPolicy) ([]pods.GCAction, error) {
	m.policy = policy
	return m.actions, m.err
}

func (m *machine) GarbageCollect(_ context.Context, policy pods.GCPolicy) error {
	m.policy = policy
	for _, a := range m.actions {
		if policy.Permits != nil && policy.Permits(a) {
			policy.Done(a, m.err)
		}
	}
	return m.err
}

func deadContainers(m *machine, l *lives, desired desiredPods) *DeadContainers {
	return &DeadContainers{
		Collector: m, Reaper: m, Views: m, Removals: l, Desired: desired,
		Heard: func() bool { return true }, MaybeWanted: func(types.UID) rule.Denial { return rule.Denial{} },
		Permit: func(cleanup.Action) rule.Denial { return rule.Denial{} }, Clock: clocktesting.NewFakeClock(time.Now()),
		Keep:    Keep{PerName: 2, Total: 10, MinAge: time.Minute},
		Records: NewPullRecords(func(context.Context) error { m.add("prune"); return nil }, clocktesting.NewFakePassiveClock(time.Now())),
	}
}

// maybeWanted protects every pod.
func maybeWanted(types.UID) rule.Denial { return rule.InUse.Because("a source is silent") }

func evictedPod(uid types.UID) *v1.Pod {
	pod := newPod(uid)
	pod.Status = v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted"}
	return pod
}

// TestContentGoes: nothing goes before every source was heard, or while a source may want
// pods that it has not named (ND2). Of desired pods only those go that their API says were
// evicted, once they have stopped.
func TestContentGoes(t *testing.T) {
	l := &lives{contentGoes: uids("gone", "stopping", "desired"), terminated: uids("gone", "desired", "evicted")}
	d := deadContainers(&machine{}, l, desire(newPod("desired"), evictedPod("evicted"), evictedPod("evicted-runs")))
	want := map[types.UID]bool{"gone": true, "stopping": false, "unknown": false, "desired": false, "evicted": true, "evicted-runs": false}
	for uid, goes := range want {
		if got := d.ContentGoes(uid); got != goes {
			t.Errorf("%s: %v, want %v", uid, got, goes)
		}
	}
	for name, set := range map[string]func(){
		"not heard": func() { d.Heard = func() bool { return false } },
		"undecided": func() {
			d.Heard, d.MaybeWanted = func() bool { return true }, maybeWanted
		},
	} {
		set()
		for uid := range want {
			if d.ContentGoes(uid) {
				t.Errorf("%s: content of %s goes", name, uid)
			}
		}
	}
}

// TestCollectionFindsWhatAnEvictedPodLeft (PE2): a desired pod that was evicted here and has
// finished keeps no containers, even if its last step removed none. One whose end is not told
// yet keeps them (PE4), and so does everything that a silent source may want.
func TestCollectionFindsWhatAnEvictedPodLeft(t *testing.T) {
	m := &machine{}
	all := uids("evicted", "untold", "stopping")
	l := &lives{known: all, contentGoes: all, terminated: uids("evicted", "untold", "ended"), finished: uids("evicted", "ended")}
	d := deadContainers(m, l, desire(newPod("evicted"), newPod("untold"), newPod("stopping"), newPod("ended")))
	for _, undecided := range []bool{false, true} {
		if undecided {
			d.MaybeWanted = maybeWanted
		}
		if _, err := d.Plan(t.Context(), func(types.UID) bool { return false }); err != nil {
			t.Fatal(err)
		}
		for uid, goes := range map[types.UID]bool{"evicted": !undecided, "untold": false, "stopping": false, "ended": false, "unknown": false} {
			if got := m.policy.ContentShouldBeRemoved(uid); got != goes {
				t.Errorf("undecided %v: the content of %s goes: %v", undecided, uid, got)
			}
		}
	}
}

// TestReclaimWaitsForTheSources: before every source was heard, a container may be of a pod
// that a source could not name (ND2).
func TestReclaimWaitsForTheSources(t *testing.T) {
	m := &machine{}
	d := deadContainers(m, &lives{}, desire())
	d.Heard = func() bool { return false }
	if err := d.Reclaim(t.Context()); err != nil || m.policy.Pressure {
		t.Errorf("%v, policy %+v", err, m.policy)
	}
}

// TestReclaimAsksTheRuleOfHousekeeping: while a source is undecided, pods without a worker
// keep everything, also from an eviction manager that wants disk space (ND2).
func TestReclaimAsksTheRuleOfHousekeeping(t *testing.T) {
	m := &machine{}
	d := deadContainers(m, &lives{contentGoes: uids("gone"), known: uids("runs", "ended"), terminated: uids("gone", "ended")}, desire())
	for _, undecided := range []bool{false, true} {
		if undecided {
			d.MaybeWanted = maybeWanted
		}
		if err := d.Reclaim(t.Context()); err != nil || !m.policy.Pressure || !m.policy.SourcesReady {
			t.Fatalf("policy %+v, %v", m.policy, err)
		}
		decided := !undecided
		if m.policy.ContentShouldBeRemoved("gone") != decided {
			t.Errorf("undecided %v: the content of a pod that is gone", undecided)
		}
		for uid, goes := range map[types.UID]bool{"runs": false, "ended": true, "unknown": decided} {
			if m.policy.RuntimeShouldBeRemoved(uid) != goes {
				t.Errorf("undecided %v: the containers of %s go: %v", undecided, uid, !goes)
			}
		}
	}
}

// TestReaperLooksAtWhatDied, at everything that has exited of an evicted pod, and at no
// pod that was not read.
func TestReaperLooksAtWhatDied(t *testing.T) {
	m := &machine{views: map[types.UID]*runtime.PodStatus{"web": {UID: "web", Containers: []*runtime.ContainerStatus{
		{ID: runtime.ContainerID{ID: "1"}, State: runtime.Exited},
		{ID: runtime.ContainerID{ID: "2"}, State: runtime.Running},
		{ID: runtime.ContainerID{ID: "3"}, State: runtime.Exited},
	}}}}
	d := deadContainers(m, &lives{}, desire())
	d.Died(pleg.PodEvents{UID: "web", Died: []string{"3"}})
	d.Evicted(newPod("web"))
	d.Evicted(newPod("unread"))
	if got := m.take(); !slices.Equal(got, []string{"web 3", "web 1 3"}) {
		t.Errorf("calls %v", got)
	}
	running, err := d.Running(t.Context())
	if err != nil || len(running) != 1 || running[0].UID != "web" {
		t.Errorf("read pods %v, %v", running, err)
	}
}

// TestCollectionIsShownAsAPlan: each choice as an action; a ready sandbox is no candidate.
func TestCollectionIsShownAsAPlan(t *testing.T) {
	finished := time.Unix(1000, 0)
	m := &machine{
		views: map[types.UID]*runtime.PodStatus{"u": {Containers: []*runtime.ContainerStatus{{ID: runtime.ContainerID{ID: "c1"}, FinishedAt: finished}, {ID: runtime.ContainerID{ID: "c3"}, State: runtime.Exited, Reason: "StartError", Message: "failed to create containerd task: context canceled"}}}},
		actions: []pods.GCAction{
			{ID: "c1", Container: "app", Namespace: "ns", Pod: "web", PodUID: "u", Reason: "it is old", Age: 90*time.Second + 1},
			{ID: "s1", Sandbox: true, Namespace: "ns", Pod: "web", PodUID: "u", Kept: rule.Denial{Rule: rule.SandboxReady}},
			{ID: "s2", Sandbox: true, Namespace: "ns", Pod: "web", PodUID: "u"},
		},
		err: errors.New("busy"),
	}
	d := deadContainers(m, &lives{}, desire())
	plan, err := d.Plan(t.Context(), d.ContentGoes)
	if err == nil || len(plan) != 2 {
		t.Fatalf("plan %+v, %v", plan, err)
	}
	if a := plan[0]; a.Step != cleanup.StepContainers || a.Object.Container != "app" || a.Reason != "it is old" || a.Age.Duration != 90*time.Second {
		t.Errorf("container %+v", a)
	}
	if a := plan[1]; a.Step != cleanup.StepSandboxes || a.Object.ID != "s2" || a.Reason != "it does not run" {
		t.Errorf("sandbox %+v", a)
	}
	if p := m.policy; p.MaxPerContainer != 2 || p.MaxContainers != 10 || p.MinAge != time.Minute ||
		!p.FinishedAt("u", runtime.ContainerID{ID: "c1"}).Equal(finished) || !p.FinishedAt("u", runtime.ContainerID{ID: "c2"}).IsZero() || !p.FinishedAt("unread", runtime.ContainerID{}).IsZero() {
		t.Errorf("policy %+v", p)
	}
	if p := m.policy; p.NeverRan("u", runtime.ContainerID{ID: "c1"}) || p.NeverRan("u", runtime.ContainerID{ID: "c2"}) || !p.NeverRan("u", runtime.ContainerID{ID: "c3"}) {
		t.Errorf("CG9: which never ran: %+v", p)
	}
	done := 0
	err = d.Collect(t.Context(), d.ContentGoes, func(a cleanup.Action) bool { return a.Step == cleanup.StepContainers }, func(a cleanup.Action, err error) {
		if a.Object.ID == "c1" && err != nil {
			done++
		}
	})
	if err == nil || done != 1 || !slices.Equal(m.take(), []string{"prune"}) {
		t.Errorf("%d done, %v", done, err)
	}
}
