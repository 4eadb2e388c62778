package podsync

import (
	"errors"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/syncloop/admission"
)

// resizing are allocations with conditions of their own.
type resizing struct {
	allocations
	conditions []v1.PodCondition
}

func (r resizing) Conditions(types.UID) []v1.PodCondition { return r.conditions }

// observing returns a syncer whose pod was last shown in generation 1. Unless same is true, the pod has not been allocated
// what it asks for.
func (n *node) observing(same bool, conditions []v1.PodCondition, change ...func(*Options)) *Syncer {
	n.published = []v1.PodStatus{{Phase: v1.PodRunning, ObservedGeneration: 1}}
	if !same {
		n.granted = func(pod *v1.Pod) *v1.Pod { return pod.DeepCopy() }
	}
	return n.syncer(append(change, func(o *Options) { o.Allocations = resizing{allocations{n}, conditions} })...)
}

// generation returns a pod of a generation.
func generation(g int64) *v1.Pod {
	pod := web()
	pod.Generation, pod.Spec.RestartPolicy = g, v1.RestartPolicyAlways
	return pod
}

// observed checks the generation of a status and of its conditions.
func (n *node) observed(s v1.PodStatus, want int64) {
	n.t.Helper()
	if s.ObservedGeneration != want {
		n.t.Errorf("the status is of generation %d, want %d", s.ObservedGeneration, want)
	}
	for _, c := range s.Conditions {
		if c.Type != v1.PodResizePending && c.ObservedGeneration != want {
			n.t.Errorf("%s is of generation %d, want %d", c.Type, c.ObservedGeneration, want)
		}
	}
}

// TestUndecidedResizeIsNotObserved: spec/status.md 5.8. As long as it is not decided what a pod gets of what it asks for,
// its status is of the generation before. It is of the new one once that is decided, and before the pod is changed.
func TestUndecidedResizeIsNotObserved(t *testing.T) {
	pending := []v1.PodCondition{{Type: v1.PodResizePending, Status: v1.ConditionTrue, ObservedGeneration: 1}}
	for name, tc := range map[string]struct {
		by         string // what keeps it from being decided
		stopped    bool
		same       bool
		conditions []v1.PodCondition
	}{
		"no network":                   {by: "network"},
		"no network, and refused once": {by: "network", conditions: pending},
		"no network, and taken back":   {by: "network", same: true, conditions: pending},
		"full disk":                    {by: "disk"},
		"blocked":                      {by: "handler"},
		"blocked and stopped":          {by: "handler", stopped: true},
		"gate":                         {by: "gate", stopped: true},
	} {
		t.Run(name, func(t *testing.T) {
			n, by := newNode(t), tc.by
			view := viewOf(runtime.Running)
			if tc.stopped {
				view = nothing()
			}
			n.view = view
			s := n.observing(tc.same, tc.conditions, func(o *Options) {
				o.Admission.Handlers = []admission.Handler{admission.HandlerFunc(func(r admission.Request) admission.Verdict {
					if r.Pod.Generation != 2 {
						t.Errorf("a handler is asked about generation %d", r.Pod.Generation)
					}
					if by == "handler" {
						return admission.Refuse("NoRoom", "full")
					}
					return admission.Verdict{}
				})}
				o.Network = func() error { return map[bool]error{true: errFake}[by == "network"] }
				o.Gate = func() error { return map[bool]error{true: errFake}[by == "gate"] }
			})
			n.fail["Allocate"] = by == "disk"
			for range 2 {
				if _, err := s.SyncPod(t.Context(), podworkers.Update, generation(2), nil, view); err == nil {
					t.Fatal("nothing keeps the pod")
				}
				n.observed(n.last(), 1)
			}
			by, n.fail["Allocate"], n.calls = "", false, nil
			if _, err := s.SyncPod(t.Context(), podworkers.Sync, generation(2), nil, view); err != nil {
				t.Fatal(err)
			}
			n.observed(n.last(), 2)
			if at := slices.Index(n.calls, "Allocate"); at < 0 || n.calls[at+1] != "SetPodStatus" {
				t.Errorf("not told before the pod is changed: %q", n.calls)
			}
		})
	}
}

// TestDecidedGenerationIsObservedAtOnce: spec/status.md 5.8. Only a resize that is not decided holds a generation back, and
// nothing takes one back.
func TestDecidedGenerationIsObservedAtOnce(t *testing.T) {
	refused := []v1.PodCondition{{Type: v1.PodResizePending, Status: v1.ConditionTrue, ObservedGeneration: 3}}
	for name, tc := range map[string]struct {
		same       bool
		conditions []v1.PodCondition
		generation int64
		told       int64 // by an earlier agent
		want       int64
	}{
		"no resize":                     {same: true, generation: 3, want: 3},
		"a refusal of this generation":  {conditions: refused, generation: 3, want: 3},
		"no newer generation":           {generation: 1, want: 1},
		"none, as a static pod":         {generation: 0, want: 1},
		"told by an agent before":       {generation: 3, told: 3, want: 3},
		"an older one was told before":  {generation: 3, told: 2, want: 2},
		"not told, and not decided yet": {generation: 3, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.network = errFake
			pod := generation(tc.generation)
			pod.Status.ObservedGeneration = tc.told
			if _, err := n.observing(tc.same, tc.conditions).SyncPod(t.Context(), podworkers.Update, pod, nil, viewOf(runtime.Running)); !errors.Is(err, podworkers.ErrNetworkNotReady) {
				t.Error(err)
			}
			if got := n.published[1].ObservedGeneration; got != tc.want {
				t.Errorf("generation %d, want %d", got, tc.want)
			}
		})
	}
}

// TestEndObservesTheGeneration: spec/status.md 5.8. No resize is decided any more for a pod that ends.
func TestEndObservesTheGeneration(t *testing.T) {
	n := newNode(t)
	s := n.observing(false, nil)
	n.view = viewOf(runtime.Exited)
	if err := s.SyncTerminatingPod(t.Context(), generation(2), viewOf(runtime.Running), nil, nil); err != nil {
		t.Fatal(err)
	}
	n.observed(n.published[1], 2)
	if err := s.SyncTerminatedPod(t.Context(), generation(3), n.view); err != nil {
		t.Fatal(err)
	}
	n.observed(n.last(), 3)
}
