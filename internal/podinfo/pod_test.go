package podinfo

import (
	"errors"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestStaticPodsHaveASourceOtherThanTheAPI(t *testing.T) {
	for _, test := range []struct {
		annotations    map[string]string
		static, mirror bool
	}{
		{nil, false, false},
		{map[string]string{AnnotationSource: "api"}, false, false},
		{map[string]string{AnnotationSource: "file"}, true, false},
		{map[string]string{AnnotationSource: ""}, true, false},
		{map[string]string{AnnotationHash: "h"}, false, false},
		{map[string]string{AnnotationSource: "api", AnnotationMirror: "h"}, false, true},
		{map[string]string{AnnotationMirror: ""}, false, true},
	} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: test.annotations}}
		if Static(pod) != test.static || Mirror(pod) != test.mirror {
			t.Errorf("%v: static %v, mirror %v", test.annotations, Static(pod), Mirror(pod))
		}
	}
}

func TestSucceededAndFailedAreTerminal(t *testing.T) {
	for phase, want := range map[v1.PodPhase]bool{
		"": false, v1.PodPending: false, v1.PodRunning: false, v1.PodUnknown: false, v1.PodSucceeded: true, v1.PodFailed: true,
	} {
		if Terminal(phase) != want {
			t.Errorf("%q: %v", phase, !want)
		}
	}
}

func TestContainersOfEveryKindAreNamed(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers:      []v1.Container{{Name: "setup"}},
		Containers:          []v1.Container{{Name: "main"}, {Name: "beside"}},
		EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}},
	}}
	for name, want := range map[string]bool{"setup": true, "main": true, "beside": true, "debug": true, "mai": false, "": false} {
		if HasContainer(pod, name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

func TestFullNameIsNameThenNamespace(t *testing.T) {
	if got := FullName("default", "web"); got != "web_default" {
		t.Error(got)
	}
}

func TestResolvedPriorityOutweighsTheClassName(t *testing.T) {
	for _, test := range []struct {
		name           string
		priority       *int32
		class          string
		critical, node bool
	}{
		{"ordinary", nil, "", false, false},
		{"another class", nil, "gold", false, false},
		{"cluster class", nil, "system-cluster-critical", true, false},
		{"node class", nil, "system-node-critical", true, true},
		{"just below", ptr.To[int32](1_999_999_999), "", false, false},
		{"system critical", ptr.To[int32](2_000_000_000), "", true, false},
		{"just below node critical", ptr.To[int32](2_000_000_999), "", true, false},
		{"node critical", ptr.To[int32](2_000_001_000), "", true, true},
		{"the number decides", ptr.To[int32](0), "system-node-critical", false, false},
		{"the number decides upwards", ptr.To[int32](2_000_001_000), "gold", true, true},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{Priority: test.priority, PriorityClassName: test.class}}
		if Critical(pod) != test.critical || NodeCritical(pod) != test.node {
			t.Errorf("%s: critical %v, node critical %v", test.name, Critical(pod), NodeCritical(pod))
		}
	}
}

func TestDiscardEventsDrops(t *testing.T) {
	var r EventRecorder = DiscardEvents{}
	r.Eventf(NodeReference("n1"), v1.EventTypeNormal, "Reason", "%d", 1)
	if ref := NodeReference("n1"); ref.Kind != "Node" || ref.UID != "n1" {
		t.Errorf("%v", ref)
	}
}

func TestEventTextIsShort(t *testing.T) {
	var all []error
	for i := range 7 {
		all = append(all, fmt.Errorf("%d", i))
	}
	for n, want := range map[int]string{1: "0", 5: "0\n1\n2\n3\n4", 7: "0\n1\n2\n3\n4\nand 2 more"} {
		if got := EventText(errors.Join(all[:n]...)); got != want {
			t.Errorf("%d errors: %q, want %q", n, got, want)
		}
	}
}

func TestReadyIsTheCondition(t *testing.T) {
	for want, conditions := range map[bool][]v1.PodCondition{
		true:  {{Type: v1.ContainersReady, Status: v1.ConditionFalse}, {Type: v1.PodReady, Status: v1.ConditionTrue}},
		false: {{Type: v1.ContainersReady, Status: v1.ConditionTrue}, {Type: v1.PodReady, Status: v1.ConditionUnknown}},
	} {
		if got := Ready(&v1.PodStatus{Conditions: conditions}); got != want {
			t.Errorf("%v: %v, want %v", conditions, got, want)
		}
	}
	if Ready(&v1.PodStatus{}) {
		t.Error("a pod without conditions is ready")
	}
}

func TestPriorityIsTheNumberAndZeroWithoutOne(t *testing.T) {
	for _, test := range []struct {
		priority      *int32
		class         string
		want, claimed int32
	}{
		{nil, "", 0, 0},
		{nil, "system-node-critical", 0, 2_000_001_000},
		{ptr.To[int32](-5), "system-node-critical", -5, -5},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{Priority: test.priority, PriorityClassName: test.class}}
		if got := Priority(pod); got != test.want {
			t.Errorf("%+v: priority %d", test, got)
		}
		if got := ClaimedPriority(pod); got != test.claimed {
			t.Errorf("%+v: claimed priority %d", test, got)
		}
	}
}
