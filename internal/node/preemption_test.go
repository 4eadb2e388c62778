package node

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/preemption"
)

// cluster is a node whose pods all have a place, with room for two.
type cluster struct {
	calls
	judged, waiting map[types.UID]bool
	ending          map[types.UID]bool
	refuse          bool
	verdict         error
	down            error
	events          int
}

func (c *cluster) Admit(_ context.Context, pod *v1.Pod, _ iter.Seq[*v1.Pod]) (bool, error) {
	c.add("judge " + string(pod.UID))
	return c.verdict == nil, c.verdict
}
func (c *cluster) Remembered(uid types.UID) bool { return uid == "remembered" }
func (c *cluster) Ending(pod *v1.Pod) bool       { return c.ending[pod.UID] }
func (c *cluster) Judged(pod *v1.Pod) bool       { return c.judged[pod.UID] }
func (c *cluster) Place(pod *v1.Pod) (*v1.Pod, bool) {
	return pod, !c.waiting[pod.UID]
}
func (c *cluster) Eventf(apiruntime.Object, string, string, string, ...any) { c.events++ }

func (c *cluster) preemption(r *Residents) *Preemption {
	return NewPreemption(PreemptionOptions{
		Gate: c, Places: c, Residents: r, Node: func() preemption.Node { return preemption.Node{MaxPods: 2} },
		Others: []admission.Handler{admission.HandlerFunc(func(admission.Request) admission.Verdict {
			if c.refuse {
				return admission.Refuse("Other", "for another reason")
			}
			return admission.Verdict{}
		})},
		Update: func(u podworkers.UpdateOptions) {
			if u.Type != podworkers.Kill || !u.Kill.Evict || u.Kill.GracePeriodSeconds != nil {
				c.add("not an eviction with its own grace")
			}
			var s v1.PodStatus
			u.Kill.StatusFunc(&s)
			c.add("kill " + string(u.Pod.UID) + " " + s.Reason)
		},
		Critical: func(pod *v1.Pod) bool { return pod.Spec.Priority != nil && *pod.Spec.Priority > 0 },
		Usable:   func() error { return c.down },
		Clock:    clocktesting.NewFakePassiveClock(time.Unix(0, 0)),
		Events:   c, Logger: logr.Discard(),
	})
}

// TestPreemption: which pods have to make room, and when the gate is asked (section 16).
func TestPreemption(t *testing.T) {
	full := []*v1.Pod{withPriority("a", -1), withPriority("b", 0)}
	for _, test := range []struct {
		name   string
		pod    *v1.Pod
		others []*v1.Pod
		set    func(*cluster)
		want   []string
		waits  bool
	}{
		{"not critical", newPod("p"), full, nil, []string{"judge p"}, false},
		{"room is left", withPriority("p", 1), full[:1], nil, []string{"judge p"}, false},
		{"no room: the lowest goes", withPriority("p", 1), full, nil, []string{"kill a Preempting"}, true},
		{"judged already", withPriority("p", 1), full, func(c *cluster) { c.judged = uids("p") }, []string{"judge p"}, false},
		{"room would not help", withPriority("p", 1), full, func(c *cluster) { c.refuse = true }, []string{"judge p"}, false},
		{"no room can be made", withPriority("p", 1), []*v1.Pod{withPriority("a", 2), withPriority("b", 2)}, nil, []string{"judge p"}, false},
		{"a waiting pod has no place", withPriority("p", 1), full, func(c *cluster) { c.waiting = uids("b") }, []string{"judge p"}, false},
		{"the runtime is down", withPriority("p", 1), full, func(c *cluster) { c.down = errors.New("down") }, nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &cluster{}
			if test.set != nil {
				test.set(c)
			}
			r, _ := residents(test.others...)
			admitted, err := c.preemption(r).Admit(t.Context(), test.pod, slices.Values(test.others))
			if admitted == test.waits || (err != nil) != test.waits {
				t.Errorf("admitted %v, %v", admitted, err)
			}
			if got := c.take(); !slices.Equal(got, test.want) {
				t.Errorf("calls %v, want %v", got, test.want)
			}
		})
	}
}

// TestRoomIsKeptForOpenVerdicts: IN6. Beside two critical pods that wait for room, a pod
// without a claim to it is judged at once, one that would take it waits for 1.5 times the
// victims' grace, a critical one makes room of its own.
func TestRoomIsKeptForOpenVerdicts(t *testing.T) {
	c := &cluster{}
	others := []*v1.Pod{withPriority("a", 0), withPriority("b", 0), withPriority("c", 0)}
	for _, p := range others {
		p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](20)
	}
	first, second, third := withPriority("first", 1), withPriority("second", 1), withPriority("third", 1)
	rival := newPod("rival")
	r, _ := residents(append(others, first, second, third, rival)...)
	now := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	p := c.preemption(r)
	p.options.Node = func() preemption.Node { return preemption.Node{MaxPods: 4} }
	p.options.Clock, p.options.Room = now, []admission.Handler{admission.PodCount(4)}
	admit := func(pod *v1.Pod, want error) {
		t.Helper()
		if _, err := p.Admit(t.Context(), pod, slices.Values(others)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", pod.UID, err, want)
		}
	}
	c.verdict = errors.New("a handler hangs")
	admit(first, c.verdict) // there is room; its verdict is open for another reason
	admit(second, errMakingRoom)
	admit(third, errMakingRoom)
	if got := c.take(); len(got) != 3 || got[0] != "judge first" {
		t.Errorf("calls %v, want one victim for each of two pods", got)
	}
	c.verdict = nil
	admit(rival, errRoomKept)
	now.SetTime(time.Unix(31, 0))
	admit(rival, nil)
	if got := c.take(); !slices.Equal(got, []string{"judge rival"}) {
		t.Errorf("calls %v", got)
	}
	admit(first, nil)
	if len(p.open) != 2 {
		t.Errorf("%d open verdicts, want 2", len(p.open))
	}
}

// TestPreemptedPodIsToldOnce and keeps its place until it has finished; then the critical
// pod is judged.
func TestPreemptedPodIsToldOnce(t *testing.T) {
	c := &cluster{}
	others := []*v1.Pod{withPriority("a", 0), withPriority("b", 0)}
	r, l := residents(others...)
	p, pod := c.preemption(r), withPriority("p", 1)
	for range 3 {
		if _, err := p.Admit(t.Context(), pod, slices.Values(others)); !errors.Is(err, errMakingRoom) {
			t.Fatalf("error %v", err)
		}
	}
	if got := c.take(); len(got) != 1 || c.events != 1 {
		t.Errorf("calls %v, %d events", got, c.events)
	}
	l.finished["a"] = true
	if admitted, err := p.Admit(t.Context(), pod, slices.Values(others[1:])); !admitted || err != nil {
		t.Errorf("with room: %v, %v", admitted, err)
	}
	if len(p.going) != 0 {
		t.Errorf("still told to go: %v", p.going)
	}
	if !p.Remembered("remembered") || p.Remembered("other") {
		t.Error("Remembered is not the gate's")
	}
}

// TestRoomOfPodsThatLeaveIsAwaited: a pod that stops anyway makes room for a critical one, and no other has to, unless the
// pod takes longer than its own grace allows.
func TestRoomOfPodsThatLeaveIsAwaited(t *testing.T) {
	for _, row := range []struct {
		name    string
		deleted int64 // its grace
		want    []string
		until   int64
	}{
		{"it stops", 0, nil, 30},
		{"it is deleted", 20, nil, 30},
		{"it may take longer", 21, []string{"kill b Preempting"}, 45},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := &cluster{ending: uids("a")}
			others := []*v1.Pod{withPriority("a", 0), withPriority("b", -1)}
			others[0].Spec.TerminationGracePeriodSeconds = ptr.To[int64](20)
			if row.deleted > 0 {
				others[0].DeletionGracePeriodSeconds = &row.deleted
			}
			r, l := residents(others...)
			p, pod := c.preemption(r), withPriority("p", 1)
			now := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
			p.options.Clock = now
			heard := 0
			p.options.Admitted = func(*v1.Pod) { heard++ }
			admit := func(want ...string) {
				t.Helper()
				_, err := p.Admit(t.Context(), pod, slices.Values(others))
				if got := c.take(); !errors.Is(err, errMakingRoom) || !slices.Equal(got, want) {
					t.Errorf("%v, calls %v, want %v", err, got, want)
				}
			}
			admit(row.want...)
			if until := p.open[pod.UID].until; !until.Equal(time.Unix(row.until, 0)) {
				t.Errorf("its room is kept until %v", until)
			}
			now.SetTime(time.Unix(29, 0))
			admit()
			if row.want == nil { // the runtime does not stop it
				now.SetTime(time.Unix(30, 0))
				admit("kill b Preempting")
			}
			l.finished["a"], l.finished["b"] = true, true
			if admitted, err := p.Admit(t.Context(), pod, slices.Values(others[:0])); !admitted || err != nil || heard != 1 || len(p.leaving) > 0 {
				t.Errorf("with room: %v, %v, told %d times, leaving %v", admitted, err, heard, p.leaving)
			}
		})
	}
}

// TestFitting: a pod that would get room counts for the next one, and critical pods make some.
// What only matters for them is found out only if such a pod has no room.
func TestFitting(t *testing.T) {
	c, asked := &cluster{}, 0
	p := c.preemption(nil)
	p.options.Room = []admission.Handler{admission.PodCount(2)}
	critical := p.options.Critical
	p.options.Critical = func(pod *v1.Pod) bool { asked++; return critical(pod) }
	placed := []*v1.Pod{newPod("placed")}
	fits := p.Fitting(placed)
	if !fits(newPod("a")) || fits(newPod("b")) || asked != 1 {
		t.Errorf("room for one: asked %d times", asked)
	}
	if !fits(withPriority("c", 1)) || asked != 4 || len(placed) != 1 {
		t.Errorf("room made: asked %d times", asked)
	}
	if !fits(withPriority("d", 1)) || asked != 6 {
		t.Errorf("asked %d times", asked)
	}
}

// TestStuckVictimIsReplacedOnce: IN6: once the time of a pod that was told to make room is over, another one is told; the
// first is not told again, and with a runtime that stops neither, both are waited for.
func TestStuckVictimIsReplacedOnce(t *testing.T) {
	c := &cluster{}
	others := []*v1.Pod{withPriority("a", -2), withPriority("b", -1), withPriority("c", 0)}
	r, _ := residents(others...)
	p, pod := c.preemption(r), withPriority("p", 1)
	now := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	p.options.Clock, p.options.Node = now, func() preemption.Node { return preemption.Node{MaxPods: len(others)} }
	for _, look := range []struct {
		at   int64
		want []string
	}{{0, []string{"kill a Preempting"}}, {44, nil}, {45, []string{"kill b Preempting"}}, {89, nil}, {90, nil}, {3600, nil}} {
		now.SetTime(time.Unix(look.at, 0))
		_, err := p.Admit(t.Context(), pod, slices.Values(others))
		if got := c.take(); !errors.Is(err, errMakingRoom) || !slices.Equal(got, look.want) {
			t.Errorf("after %d s: %v, calls %v, want %v", look.at, err, got, look.want)
		}
	}
}

// TestStuckVictimsAreWaitedForTogether: IN6: while several pods that were told to make room do not stop, no other pod is told. When
// one of them has stopped in the end, the other is about to, too.
func TestStuckVictimsAreWaitedForTogether(t *testing.T) {
	c := &cluster{}
	a, b, other := withPriority("a", -2), withPriority("b", -1), withPriority("other", 0)
	first, second := withPriority("first", 1), withPriority("second", 1)
	r, _ := residents(a, b, other, first, second)
	p := c.preemption(r)
	now := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	p.options.Clock, p.options.Node = now, func() preemption.Node { return preemption.Node{MaxPods: 3} }
	ask := func(at int64, pod *v1.Pod, others ...*v1.Pod) {
		now.SetTime(time.Unix(at, 0))
		_, _ = p.Admit(t.Context(), pod, slices.Values(others))
	}
	for at := int64(0); at <= 3600; at += 45 {
		ask(at, first, a, b, other)
		ask(at, second, a, b, other)
	}
	ask(3601, first, b, other)
	ask(3602, second, b, other, first)
	if got := c.take(); !slices.Equal(got, []string{"kill a Preempting", "kill b Preempting", "judge first"}) {
		t.Errorf("calls %v", got)
	}
}

// TestRoomBesideAStuckVictimIsKept: IN6: the room of the pod that makes room in place of one that cannot be stopped is for the critical
// pod, and not for one that comes later.
func TestRoomBesideAStuckVictimIsKept(t *testing.T) {
	c := &cluster{}
	stuck, other, critical, late := withPriority("stuck", -2), withPriority("other", -1), withPriority("critical", 1), withPriority("late", 0)
	r, _ := residents(stuck, other, critical, late)
	p := c.preemption(r)
	now := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	p.options.Clock, p.options.Room = now, []admission.Handler{admission.PodCount(2)}
	for _, at := range []int64{0, 45} {
		now.SetTime(time.Unix(at, 0))
		if _, err := p.Admit(t.Context(), critical, slices.Values([]*v1.Pod{stuck, other})); !errors.Is(err, errMakingRoom) {
			t.Errorf("after %d s: %v", at, err)
		}
	}
	if _, err := p.Admit(t.Context(), late, slices.Values([]*v1.Pod{stuck})); !errors.Is(err, errRoomKept) {
		t.Errorf("a pod that comes later: %v", err)
	}
	if admitted, err := p.Admit(t.Context(), critical, slices.Values([]*v1.Pod{stuck})); !admitted {
		t.Errorf("the critical pod: %v", err)
	}
	if got := c.take(); !slices.Equal(got, []string{"kill stuck Preempting", "kill other Preempting", "judge critical"}) {
		t.Errorf("calls %v", got)
	}
}
