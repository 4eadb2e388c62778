package recovery

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/status/checkpoint"
)

// The end that was decided for a pod (IN8) is in its record before anything is done about it. An
// agent that finds a decision but no status that shows it first makes that status, and continues as
// if the former agent had sent it.

// decisionOf returns what amend makes of the status of a running pod; nil if amend does not end the
// pod, or panics.
func decisionOf(amend podworkers.PodStatusFunc) (d *checkpoint.Decision) {
	if amend == nil {
		return nil
	}
	defer func() {
		if recover() != nil {
			d = nil // the syncer, which calls amend too, reports the panic
		}
	}()
	running, succeeded := v1.PodStatus{Phase: v1.PodRunning}, v1.PodStatus{Phase: v1.PodSucceeded}
	amend(&running)
	amend(&succeeded)
	if !podinfo.Terminal(running.Phase) {
		return nil
	}
	return &checkpoint.Decision{
		Phase: running.Phase, Reason: running.Reason, Message: running.Message,
		Disrupted: slices.ContainsFunc(running.Conditions, func(c v1.PodCondition) bool {
			return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue
		}),
		KeepsSuccess: succeeded.Phase == v1.PodSucceeded && running.Phase != v1.PodSucceeded,
	}
}

// amendBy returns a function that makes a status show a decision, nil if there is no decision.
func amendBy(d *checkpoint.Decision) podworkers.PodStatusFunc {
	if d == nil {
		return nil
	}
	return func(s *v1.PodStatus) {
		if s.Phase != v1.PodSucceeded || !d.KeepsSuccess {
			s.Phase, s.Reason, s.Message = d.Phase, d.Reason, d.Message
		}
		if !d.Disrupted {
			return
		}
		others := func(c v1.PodCondition) bool { return c.Type == v1.DisruptionTarget }
		s.Conditions = append(slices.DeleteFunc(s.Conditions, others), v1.PodCondition{
			Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonTerminationByKubelet, Message: d.Message,
		})
	}
}

// decided makes the status of a record show the decision about its pod, if no status did before the
// former agent died. The version is new, because sinks have not had that status.
func (j *Journal) decided(record *checkpoint.Record) *checkpoint.Record {
	if record.Termination == nil || record.Termination.Decision == nil || record.Terminal() {
		return record
	}
	j.keeper.Update(record.UID, func(r *checkpoint.Record) checkpoint.Class {
		var s v1.PodStatus
		if r.Status != nil {
			s = *r.Status
		}
		s.Conditions = slices.Clone(s.Conditions)
		amendBy(r.Termination.Decision)(&s)
		for i := range s.Conditions {
			if c := &s.Conditions[i]; c.Type == v1.PodReady || c.Type == v1.ContainersReady {
				c.Status, c.Reason, c.Message = v1.ConditionFalse, "PodFailed", ""
			}
		}
		r.Status = &s
		r.Version++
		return checkpoint.Durable
	})
	return j.keeper.Get(record.UID)
}
