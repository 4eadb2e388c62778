package recovery

import (
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop/admission"
)

// TestPodRefusedUnderAnotherSourceBegins: PS6, AD5. Once it is admitted under the source that names it now, nothing of the refusal is
// left: it is a new life. A pod of which something ran goes on with what is recorded of it, and so does one that is refused again.
func TestPodRefusedUnderAnotherSourceBegins(t *testing.T) {
	for name, test := range map[string]struct {
		started bool
		verdict admission.Verdict
		begins  bool
	}{
		"admitted":             {begins: true},
		"refused again":        {verdict: admission.Refuse("PodSecurity", "privileged")},
		"something of it runs": {started: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				record := newRecord("a", phase(v1.PodFailed), stopping(checkpoint.Termination{Cause: checkpoint.CauseTerminal}))
				record.Admission = &checkpoint.Admission{Refused: true, Reason: "PodSecurity"}
				record.Source = "tenant"
				if test.started {
					begun(record)
				}
				r := newRig(t, newDisk(record)).keep()
				if err := r.Verdicts(func() bool { return false }).Remember(newPod("a"), test.verdict); err != nil {
					t.Fatal(err)
				}
				now := r.journal.Get("a")
				if begins := now.Lives == 1 && now.Status == nil && now.Termination == nil; begins != test.begins || now.Source != "file" {
					t.Errorf("it begins: %t, %q %+v", begins, now.Source, now.Admission)
				}
				updates := r.Complete(podworkers.UpdateOptions{Type: podworkers.Create, Pod: newPod("a")})
				if test.begins && (len(updates) != 1 || updates[0].Type != podworkers.Create || updates[0].Pod.Status.Phase != "") {
					t.Errorf("it does not start: %d updates, the first is %s of a pod in phase %q", len(updates), updates[0].Type, updates[0].Pod.Status.Phase)
				}
			})
		})
	}
}
