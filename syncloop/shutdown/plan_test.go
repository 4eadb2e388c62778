package shutdown_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/syncloop/shutdown"
)

// TestBatches is edge case 35, and the groups of section 16.
func TestBatches(t *testing.T) {
	three := []shutdown.Group{{Priority: 100, Time: 20 * time.Second}, {Priority: -5, Time: 10 * time.Second}, {Priority: 2_000_000_000, Time: 5 * time.Second}}
	tests := []struct {
		name       string
		groups     []shutdown.Group
		priorities []int32
		want       string
	}{
		{"edge case 35: below the lowest group goes to the lowest", three, []int32{-2_000_000_000, -5}, "-5/10s:[-2000000000 -5]"},
		{"edge case 35: above the highest goes to the highest", three, []int32{2_147_483_647}, "2000000000/5s:[2147483647]"},
		{"edge case 35: an empty group costs no time", three, []int32{2_000_000_001, 0}, "-5/10s:[0] 2000000000/5s:[2000000001]"},
		{"section 16: the highest group that is not above", three, []int32{99, 100, 1_999_999_999}, "-5/10s:[99] 100/20s:[100 1999999999]"},
		{"no groups: all at once", nil, []int32{-1, 5}, "0/30s:[-1 5]"},
		{"no pods", three, nil, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var pods []*v1.Pod
			for _, p := range test.priorities {
				pods = append(pods, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(p)}, Spec: v1.PodSpec{Priority: &p}})
			}
			var got []string
			for _, b := range (shutdown.Plan{Groups: test.groups}).Batches(pods) {
				var names []string
				for _, p := range b.Pods {
					names = append(names, p.Name)
				}
				got = append(got, fmt.Sprintf("%d/%v:%v", b.Priority, b.Time, names))
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("batches %v, want %s", got, test.want)
			}
		})
	}
	byClass := (shutdown.Plan{Groups: three}).Batches([]*v1.Pod{{Spec: v1.PodSpec{PriorityClassName: "system-node-critical"}}})
	if len(byClass) != 1 || byClass[0].Priority != 2_000_000_000 {
		t.Errorf("a pod of a system-critical class: %+v, want it with the priority of its class", byClass)
	}
	without := (shutdown.Plan{Groups: three}).Batches([]*v1.Pod{{}})
	if len(without) != 1 || without[0].Priority != -5 {
		t.Errorf("a pod without priority: %+v, want it with priority 0", without)
	}
}

// TestGrace: section 16: min(spec, group seconds).
func TestGrace(t *testing.T) {
	g := shutdown.Group{Time: 20500 * time.Millisecond}
	for own, want := range map[int64]int64{30: 20, 20: 20, 5: 5, 0: 0} {
		pod := &v1.Pod{Spec: v1.PodSpec{TerminationGracePeriodSeconds: &own}}
		if got := g.Grace(pod); got != want {
			t.Errorf("own %d s: %d, want %d", own, got, want)
		}
	}
	if got := g.Grace(&v1.Pod{}); got != 20 {
		t.Errorf("without an own one: %d", got)
	}
}

// TestAmend: section 16: pods that succeeded keep their phase.
func TestAmend(t *testing.T) {
	for phase, want := range map[v1.PodPhase]string{
		v1.PodRunning: "Failed Terminated", v1.PodPending: "Failed Terminated", v1.PodFailed: "Failed Terminated", v1.PodSucceeded: "Succeeded ",
	} {
		s := v1.PodStatus{Phase: phase, Conditions: []v1.PodCondition{{Type: v1.PodReady}}}
		shutdown.Amend(&s)
		shutdown.Amend(&s)
		if got := fmt.Sprintf("%s %s", s.Phase, s.Reason); got != want || len(s.Conditions) != 2 || s.Conditions[1].Type != v1.DisruptionTarget {
			t.Errorf("%s becomes %q with %+v, want %q", phase, got, s.Conditions, want)
		}
	}
}

func TestValidate(t *testing.T) {
	err := shutdown.Plan{Groups: []shutdown.Group{{Priority: 1}, {Priority: 1, Time: time.Second}}}.Validate()
	if err == nil || !strings.Contains(err.Error(), "at least a second") || !strings.Contains(err.Error(), "two groups have priority 1") {
		t.Errorf("error %v", err)
	}
	if err := (shutdown.Plan{}).Validate(); err != nil {
		t.Errorf("zero value: %v", err)
	}
}
