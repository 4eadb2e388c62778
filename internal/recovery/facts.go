package recovery

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/status/checkpoint"
)

// noteFacts copies what a worker knows of a pod's life into the pod's record.
func noteFacts(r *checkpoint.Record, pod *v1.Pod, f podworkers.Facts, now time.Time) checkpoint.Class {
	class := checkpoint.Unchanged
	if pod != nil && r.Name == "" {
		describe(r, pod)
	}
	if r.Admission == nil && !f.TerminationRequested { // a pod that only has to stop was not judged
		r.Admission, class = &checkpoint.Admission{At: now}, checkpoint.Durable
	}
	if f.TerminationRequested {
		class = max(class, noteTermination(r, f, now))
	}
	if f.Terminated && r.TerminatedAt.IsZero() {
		// What has to survive, the ends of its containers, is written before the containers are
		// removed (CK3).
		r.TerminatedAt, class = now, max(class, checkpoint.Lazy)
	}
	if f.Finished && !r.Finished {
		r.Finished, class = true, checkpoint.Durable
	}
	return class
}

// noteDeletion records that a pod that has to stop, or has ended, is deleted by its source. Its worker does not: it ignores what
// comes after the end, and when the deletion is taken back, an agent that starts has to know that this life is over (PS9).
func noteDeletion(r *checkpoint.Record, pod *v1.Pod) {
	if pod.DeletionTimestamp != nil && r.Termination != nil && !r.Termination.Deleted {
		t := *r.Termination
		t.Deleted = true
		r.Termination = &t
	}
}

// hasNewName reports whether the pod on record, which has not ended, has got another name under its UID while no agent ran. To
// the node that is another pod (M5): the one of the former name ends, and then the UID's next life begins.
func hasNewName(r *checkpoint.Record, pod *v1.Pod) bool {
	return podinfo.Static(pod) && r.Name != "" && (r.Name != pod.Name || r.Namespace != pod.Namespace) &&
		r.Termination == nil && !r.Terminal() && !r.Finished && !r.Retired
}

// noteRename records that the pod has to stop, with the grace of its former spec.
func noteRename(r *checkpoint.Record, former *v1.Pod, now time.Time) checkpoint.Class {
	facts := podworkers.Facts{TerminationRequested: true}
	if former != nil {
		facts.GracePeriodSeconds = max(1, int64(podinfo.Grace(former)/time.Second))
	}
	return noteTermination(r, facts, now)
}

// belowSpec reports whether a grace is shorter than the pod's own, which a pod has that ended by itself (G4).
func belowSpec(pod *v1.Pod, seconds int64) bool {
	return pod != nil && timing.Seconds(seconds) < podinfo.Grace(pod)
}

// noteTermination copies the cause and the grace of a termination into a record.
func noteTermination(r *checkpoint.Record, f podworkers.Facts, now time.Time) checkpoint.Class {
	before, decision := r.Termination, decisionOf(f.Amend)
	t := checkpoint.Termination{RequestedAt: now, Cause: checkpoint.CauseKilled}
	switch {
	case before != nil:
		t = *before
	case f.Evicted:
		t.Cause = checkpoint.CauseEvicted
	case f.Deleted:
		t.Cause = checkpoint.CauseDeleted
	case r.Terminal() || decision != nil && !decision.KeepsSuccess: // its status shows this, or will in any case
		t.Cause = checkpoint.CauseTerminal
	}
	t.Deleted, t.Evicted = t.Deleted || f.Deleted, t.Evicted || f.Evicted
	if decision != nil && (t.Decision == nil || *t.Decision != *decision) {
		t.Decision = decision // the last one, as in the status (I18)
	}
	if g := f.GracePeriodSeconds; g > 0 && (t.GracePeriodSeconds == 0 || g < t.GracePeriodSeconds) {
		if before != nil && (before.GracePeriodSeconds > 0 || belowSpec(r.Pod, g)) {
			// It has shrunk now: what is left counts from here.
			t.RequestedAt = now
		}
		t.GracePeriodSeconds = g
	}
	if before != nil && *before == t {
		return checkpoint.Unchanged
	}
	r.Termination = &t
	if before != nil && before.Decision == t.Decision && t.Cause == checkpoint.CauseTerminal && !t.Deleted && !t.Evicted {
		return checkpoint.Lazy // nothing of it has to be stopped in time
	}
	return checkpoint.Durable
}
