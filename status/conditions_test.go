package status

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/runtime"
)

// verdict is a condition without its times.
type verdict struct {
	Status v1.ConditionStatus
	Reason string
}

func verdictOf(c v1.PodCondition) verdict { return verdict{c.Status, c.Reason} }

// TestInitialized is the table of Initialized in spec/status.md 5.2.
func TestInitialized(t *testing.T) {
	yes, no := v1.ConditionTrue, v1.ConditionFalse
	for _, test := range []struct {
		rule       string
		containers string
		none       bool
		phase      v1.PodPhase
		old        v1.ConditionStatus
		want       verdict
		mentions   []string
	}{
		{rule: "row 1", containers: "I -, A -", none: true, want: verdict{no, "UnknownContainerStatuses"}},
		{rule: "row 1 without init", containers: "A -", none: true, want: verdict{yes, ""}},
		{rule: "row 2", containers: "I T1, A T0", phase: v1.PodSucceeded, want: verdict{yes, "PodCompleted"}},
		{rule: "row 2 needs all known", containers: "I -, A W", phase: v1.PodSucceeded, want: verdict{no, "ContainersNotInitialized"}, mentions: []string{"unknown", "i0"}},
		{rule: "row 3 running", containers: "I R, A R", want: verdict{yes, ""}},
		{rule: "row 3 terminated, edge 18", containers: "S r, A T1", want: verdict{yes, ""}},
		{rule: "row 4 regular", containers: "I r, A W", want: verdict{no, "ContainersNotInitialized"}, mentions: []string{"incomplete", "i0"}},
		{rule: "row 4 sidecar", containers: "S r, A W", want: verdict{no, "ContainersNotInitialized"}, mentions: []string{"s0"}},
		{rule: "row 4 both lists", containers: "I -, I W, A W", want: verdict{no, "ContainersNotInitialized"}, mentions: []string{"unknown status: [i0]", "incomplete status: [i1]"}},
		{rule: "row 4 True stays True", containers: "I r, A W", old: yes, want: verdict{yes, ""}},
		{rule: "row 5", containers: "S R, A W", want: verdict{yes, ""}},
	} {
		t.Run(test.rule, func(t *testing.T) {
			pod := newPod()
			s := scene(pod, test.containers)
			if test.none {
				s.ContainerStatuses, s.InitContainerStatuses = nil, nil
			}
			s.Phase = test.phase
			g := &generator{pod: pod, old: &v1.PodStatus{}}
			if test.old != "" {
				g.old.Conditions = []v1.PodCondition{{Type: v1.PodInitialized, Status: test.old}}
			}
			c := g.initialized(s)
			if verdictOf(c) != test.want {
				t.Errorf("%+v, want %+v", c, test.want)
			}
			for _, word := range test.mentions {
				if !strings.Contains(c.Message, word) {
					t.Errorf("message %q does not mention %q", c.Message, word)
				}
			}
		})
	}
}

// TestContainersReady is the table of ContainersReady in spec/status.md 5.2, and
// Ready without gates (5.3).
func TestContainersReady(t *testing.T) {
	yes, no := v1.ConditionTrue, v1.ConditionFalse
	for _, test := range []struct {
		rule       string
		containers string
		none       bool
		phase      v1.PodPhase
		want       verdict
		mentions   []string
	}{
		{rule: "row 1", containers: "A -", none: true, want: verdict{no, "UnknownContainerStatuses"}},
		{rule: "row 2", containers: "A T0", phase: v1.PodSucceeded, want: verdict{no, "PodCompleted"}},
		{rule: "row 2 one missing", containers: "A T0, A -", phase: v1.PodSucceeded, want: verdict{no, "ContainersNotReady"}},
		{rule: "row 3", containers: "A R", phase: v1.PodFailed, want: verdict{no, "PodFailed"}},
		{rule: "row 4", containers: "A -, A W, A R", phase: v1.PodRunning, want: verdict{no, "ContainersNotReady"}, mentions: []string{"unknown status: [a0]", "unready status: [a1]"}},
		{rule: "row 4 sidecar", containers: "S r, A R", phase: v1.PodRunning, want: verdict{no, "ContainersNotReady"}, mentions: []string{"s0"}},
		{rule: "row 5", containers: "A R, A R", phase: v1.PodRunning, want: verdict{yes, ""}},
		{rule: "row 5 regular init does not count", containers: "I W, A R", phase: v1.PodRunning, want: verdict{yes, ""}},
	} {
		t.Run(test.rule, func(t *testing.T) {
			pod := newPod()
			s := scene(pod, test.containers)
			if test.none {
				s.ContainerStatuses = nil
			}
			s.Phase = test.phase
			c := containersReady(&pod.Spec, s)
			if verdictOf(c) != test.want {
				t.Errorf("%+v, want %+v", c, test.want)
			}
			for _, word := range test.mentions {
				if !strings.Contains(c.Message, word) {
					t.Errorf("message %q does not mention %q", c.Message, word)
				}
			}
			if ready := podReady(&pod.Spec, c, nil); ready.Status != c.Status || ready.Reason != c.Reason || ready.Message != c.Message {
				t.Errorf("Ready %+v differs from ContainersReady %+v", ready, c)
			}
		})
	}
}

// TestReadinessGates: spec/status.md 5.3, edge 13.
func TestReadinessGates(t *testing.T) {
	pod := newPod(apps("a"))
	pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "example.com/lb"}, {ConditionType: "example.com/dns"}}
	in := Input{Pod: pod, Runtime: view(record("a", 0, runtime.Running))}
	set := func(lb, dns v1.ConditionStatus) v1.PodStatus {
		pod.Status.Conditions = nil
		for gate, status := range map[v1.PodConditionType]v1.ConditionStatus{"example.com/lb": lb, "example.com/dns": dns} {
			if status != "" {
				pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: gate, Status: status})
			}
		}
		return Generate(in)
	}
	both := set("True", "True")
	if c := condition(&both, v1.PodReady); c.Status != v1.ConditionTrue {
		t.Errorf("both gates True: %+v", c)
	}
	s := set("", "False")
	c := condition(&s, v1.PodReady)
	if c.Status != v1.ConditionFalse || c.Reason != "ReadinessGatesNotReady" ||
		!strings.Contains(c.Message, "example.com/lb") || !strings.Contains(c.Message, "example.com/dns") {
		t.Errorf("one gate missing, one False: %+v", c)
	}
	if containers := condition(&s, v1.ContainersReady); containers.Status != v1.ConditionTrue {
		t.Errorf("gates touched ContainersReady: %+v", containers)
	}
}

// TestConditionOrder: spec/status.md 5.1, 5.2, 5.6, 5.8.
func TestConditionOrder(t *testing.T) {
	pod := newPod(apps("a"))
	pod.Generation = 7
	pod.Status.Conditions = []v1.PodCondition{
		{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.Time{Time: t0}},
		{Type: "example.com/one", Status: v1.ConditionFalse, ObservedGeneration: 2},
		{Type: v1.PodReady, Status: v1.ConditionTrue},
		{Type: "example.com/two", Status: v1.ConditionTrue},
	}
	in := Input{
		Pod: pod, Runtime: view(record("a", 0, runtime.Running)), SandboxReady: true,
		Resize: []v1.PodCondition{
			{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: "Deferred", ObservedGeneration: 6},
			{Type: "not a resize condition", Status: v1.ConditionTrue},
		},
		override: &override{Reason: "Evicted", DisruptionTarget: "m"},
	}
	s := generate(t, in)
	var types []v1.PodConditionType
	for _, c := range s.Conditions {
		types = append(types, c.Type)
		if owned(c.Type) && c.ObservedGeneration != 7 {
			t.Errorf("%s has generation %d", c.Type, c.ObservedGeneration)
		}
	}
	want := []v1.PodConditionType{
		"example.com/one", "example.com/two", "DisruptionTarget", "PodReadyToStartContainers",
		"Initialized", "Ready", "ContainersReady", "PodScheduled",
	}
	if !slices.Equal(types, want) { // terminal: resize conditions are gone (5.6)
		t.Errorf("order %v, want %v", types, want)
	}
	in.override = nil
	s = generate(t, in)
	if s.Conditions[2].Type != v1.PodResizePending || s.Conditions[2].ObservedGeneration != 6 || conditionOf(s.Conditions, "not a resize condition") != nil {
		t.Errorf("resize conditions: %+v", s.Conditions)
	}
	if c := condition(&s, v1.PodReadyToStartContainers); c.Status != v1.ConditionTrue || c.Reason != "" {
		t.Errorf("5.4: %+v", c)
	}
	if c := condition(&s, v1.PodScheduled); c.Status != v1.ConditionTrue || !c.LastTransitionTime.Time.Equal(t0) {
		t.Errorf("5.4: %+v", c)
	}
	in.SandboxReady = false
	s = generate(t, in)
	if c := condition(&s, v1.PodReadyToStartContainers); c.Status != v1.ConditionFalse {
		t.Errorf("5.4: %+v", c)
	}
}

// Spec/status.md 5.7, edge 11.
func TestTransitionTimeMovesWithTheStatus(t *testing.T) {
	pod := newPod(apps("a", "b"))
	in := Input{Pod: pod, Runtime: view(), Now: t0}
	first := generate(t, in)
	in.Old, in.Now = &first, t1
	in.Runtime = view(record("a", 0, runtime.Running))
	second := generate(t, in)
	before, after := condition(&first, v1.ContainersReady), condition(&second, v1.ContainersReady)
	if before.Message == after.Message {
		t.Fatal("the message was to change")
	}
	if !after.LastTransitionTime.Time.Equal(t0) {
		t.Errorf("the message moved the time to %v", after.LastTransitionTime)
	}
	in.Old, in.Now = &second, t2.Add(5)
	in.Runtime = view(record("a", 0, runtime.Running), record("b", 0, runtime.Running))
	third := generate(t, in)
	if c := condition(&third, v1.ContainersReady); c.Status != v1.ConditionTrue || !c.LastTransitionTime.Time.Equal(t2) {
		t.Errorf("the status did not move the time: %+v", c)
	}
}
