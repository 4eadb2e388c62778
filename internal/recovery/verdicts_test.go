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

// TestRefusedStaticPodIsJudgedAgain: AD5. A static pod that an earlier process refused before it began is judged once more, whatever
// the verdict then is. One that lacked room or came at a bad time comes back in its own way (IN14), and an API pod stays refused.
func TestRefusedStaticPodIsJudgedAgain(t *testing.T) {
	failed := func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }
	for name, test := range map[string]struct {
		reason string
		record func(*checkpoint.Record)
		pod    func(*v1.Pod)
		again  bool
	}{
		"label":        {reason: "NodeAffinity", again: true},
		"sysctl":       {reason: "SysctlForbidden", again: true},
		"own handler":  {reason: "TooLoud", again: true},
		"room":         {reason: "OutOfcpu"},
		"port":         {reason: "NodePorts"},
		"pressure":     {reason: "Evicted"},
		"began":        {reason: "PodSecurity", record: begun},
		"of an API":    {reason: "NodeAffinity", record: func(r *checkpoint.Record) { fromAPI(r.Pod); r.Source = "api" }, pod: fromAPI},
		"deleted":      {reason: "NodeAffinity", pod: deleting},
		"shows an end": {reason: "NodeAffinity", pod: failed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				record := newRecord("a", phase(v1.PodFailed), stopping(checkpoint.Termination{Cause: checkpoint.CauseTerminal}))
				record.Admission = &checkpoint.Admission{Refused: true, Reason: test.reason, Message: "no"}
				if test.record != nil {
					test.record(record)
				}
				pod := newPod("a")
				if test.pod != nil {
					test.pod(pod)
				}
				memory := newRig(t, newDisk(record)).keep().Verdicts(func() bool { return true })
				for range 2 { // until there is a verdict
					if v, known, err := memory.Verdict(pod); known == test.again || v.Reason != test.reason || v.Message != "no" || err != nil {
						t.Fatalf("known %t: %+v, %v", known, v, err)
					}
				}
				if err := memory.Remember(pod, admission.Refuse(test.reason, "no")); err != nil {
					t.Fatal(err)
				}
				if _, known, err := memory.Verdict(pod); !known || err != nil {
					t.Errorf("it is judged a third time: %v", err)
				}
			})
		})
	}
}
