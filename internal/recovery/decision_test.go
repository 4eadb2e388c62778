package recovery

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop/shutdown"
)

// TestDecisionSaysWhatWasDecided: IN8. What is kept of a decision makes of a status what the
// decision itself makes of it.
func TestDecisionSaysWhatWasDecided(t *testing.T) {
	for name, amend := range map[string]podworkers.PodStatusFunc{
		"eviction": eviction.Amend("Evicted", "low on memory"),
		"shutdown": shutdown.Amend,
		"a user's": func(s *v1.PodStatus) { s.Phase, s.Reason = v1.PodFailed, "Mine" },
	} {
		d := decisionOf(amend)
		for _, phase := range []v1.PodPhase{v1.PodPending, v1.PodRunning, v1.PodSucceeded, v1.PodFailed} {
			want, got := v1.PodStatus{Phase: phase, Reason: "Before"}, v1.PodStatus{Phase: phase, Reason: "Before"}
			amend(&want)
			amendBy(d)(&got)
			if got.Phase != want.Phase || got.Reason != want.Reason || got.Message != want.Message || len(got.Conditions) != len(want.Conditions) {
				t.Errorf("%s of a pod that is %s: %+v, want %+v", name, phase, got, want)
			}
			amendBy(d)(&got)
			if len(got.Conditions) != len(want.Conditions) {
				t.Errorf("%s: a second time it adds conditions: %+v", name, got.Conditions)
			}
		}
	}
}

// TestOnlyEndsAreDecisions: IN8. What ends no pod is not kept, and a function that panics
// harms nothing.
func TestOnlyEndsAreDecisions(t *testing.T) {
	for name, amend := range map[string]podworkers.PodStatusFunc{
		"nothing":   nil,
		"no end":    func(s *v1.PodStatus) { s.Message = "busy" },
		"it panics": func(*v1.PodStatus) { panic("no") },
	} {
		if d := decisionOf(amend); d != nil {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if amendBy(nil) != nil {
		t.Error("without a decision there is something to say")
	}
}

// TestRedactedRecordKeepsItsDecision: IN8. Without its messages a record still has the reason of an end.
func TestRedactedRecordKeepsItsDecision(t *testing.T) {
	r := &checkpoint.Record{UID: "a", Termination: &checkpoint.Termination{Decision: &checkpoint.Decision{Phase: v1.PodFailed, Reason: "Evicted", Message: "long"}}}
	if d := r.Redacted().Termination.Decision; d.Reason != "Evicted" || d.Message != "" || r.Termination.Decision.Message != "long" {
		t.Errorf("%+v of %+v", d, r.Termination.Decision)
	}
}
