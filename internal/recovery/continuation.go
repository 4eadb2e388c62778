package recovery

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/shutdown"
)

// Complete returns the updates to give to the workers in place of one. They differ from it for the
// first update of a pod in this process: then what is remembered of the pod counts too. Before the
// records are loaded nothing is remembered: setup waits for the gate, and the first housekeeping
// pass finds what has to stop.
func (r *Recovery) Complete(update podworkers.UpdateOptions) []podworkers.UpdateOptions {
	pod := update.Pod
	if !timing.Ended(r.journal.loaded) {
		return nil
	}
	if pod == nil {
		return []podworkers.UpdateOptions{update}
	}
	before := r.journal.Get(pod.UID)
	if !r.journal.Desired(pod) {
		return []podworkers.UpdateOptions{update}
	}
	r.options.Statuses.Adopt(pod)
	record := r.journal.Get(pod.UID)
	if record == nil {
		return []podworkers.UpdateOptions{update}
	}
	next := continuationOf(pod, record, r.options.Clock.Now())
	if next.newLife || r.journal.isRetired(record) {
		r.options.Statuses.Forget(pod.UID) // first, so that nothing of the earlier life gets into the new record
		r.journal.Renew(pod.UID)
		r.journal.Desired(pod)
		return []podworkers.UpdateOptions{update}
	}
	if before != nil && hasNewName(before, pod) {
		next.former = before.Pod
	}
	return next.complete(update)
}

// continuation says how a pod continues that has a record and is handed over for the first time in
// this process.
type continuation struct {
	// newLife: the record is of an earlier life of the UID.
	newLife bool
	// ended is the status of a pod that has ended and stays so (CK4); nil for others.
	ended *v1.PodStatus
	// kill is for a pod that had to stop and has not finished (CK6), or that keeps nothing because
	// it was evicted (PE2); nil for others.
	kill *podworkers.KillOptions
	// again: once it has stopped, it starts again.
	again bool
	// began: what it holds was not released by an earlier agent, even if nothing of it runs any more.
	began bool
	// former is the pod under the name that it had; nil if it is the same.
	former *v1.Pod
}

// continuationOf decides how a pod continues, given its record.
func continuationOf(pod *v1.Pod, r *checkpoint.Record, now time.Time) continuation {
	var c continuation
	removed, withNode := removedBySource(pod, r), endedWithNode(pod, r)
	// A pod that is being deleted gets no other life (RT2).
	if pod.DeletionTimestamp == nil && (r.Finished && (!r.Terminal() || removed || withNode) || refusedByNode(pod, r)) {
		c.newLife = true
		return c
	}
	if r.Terminal() && !podinfo.Terminal(pod.Status.Phase) {
		c.ended = r.Status
	}
	if r.Termination == nil || r.Finished && !r.Termination.Evicted {
		return c
	}
	c.kill, c.began = killOf(r, now), !r.StartedAt.IsZero() && !r.Finished
	// A pod that was removed and is desired again, or that was ending with its node: its next life begins after this end.
	c.again = podinfo.Static(pod) && pod.DeletionTimestamp == nil && (withNode || !r.Termination.Evicted && (!r.Terminal() || removed))
	return c
}

// removedBySource reports whether a desired static pod had to stop because its source no longer
// wanted it. Then the phase in which it ended belongs to an earlier life.
func removedBySource(pod *v1.Pod, r *checkpoint.Record) bool {
	t := r.Termination
	return t != nil && podinfo.Static(pod) && pod.DeletionTimestamp == nil && !t.Evicted &&
		(t.Deleted || t.Cause == checkpoint.CauseDeleted || t.Cause == checkpoint.CauseKilled)
}

// endedWithNode reports whether the end of a static pod was decided only because its node stopped: it starts again when
// the node is back, once that end is complete.
func endedWithNode(pod *v1.Pod, r *checkpoint.Record) bool {
	return r.Terminal() && podinfo.Static(pod) && shutdown.Ended(r.Status)
}

// refusedByNode reports whether a static pod was refused only because its node stopped: it starts when the node is back.
func refusedByNode(pod *v1.Pod, r *checkpoint.Record) bool {
	return r.Terminal() && podinfo.Static(pod) && r.Status.Reason == admission.ReasonShutdown
}

// complete applies a continuation to the first update of the pod.
func (c continuation) complete(update podworkers.UpdateOptions) []podworkers.UpdateOptions {
	if c.ended != nil {
		ended := *update.Pod
		ended.Status = *c.ended
		update.Pod = &ended
	}
	if c.kill == nil {
		return []podworkers.UpdateOptions{update}
	}
	kill, again := update, update
	if c.former != nil && c.again {
		kill.Pod, kill.MirrorPod = c.former, nil
	}
	if c.began && kill.RunningPod == nil { // so that its worker carries out its end in full (U1, W6)
		kill.RunningPod = &runtime.Pod{UID: kill.Pod.UID, Namespace: kill.Pod.Namespace, Name: kill.Pod.Name}
	}
	if update.Type == podworkers.Kill {
		kill.Kill = join(update.Kill, c.kill)
		return []podworkers.UpdateOptions{kill}
	}
	kill.Type, kill.Kill = podworkers.Kill, c.kill
	if !c.again {
		return []podworkers.UpdateOptions{kill}
	}
	again.Type = podworkers.Create
	return []podworkers.UpdateOptions{kill, again}
}

// KillOrphan returns the update that stops a running pod that no source wants. If the pod is
// remembered as it was last desired, it ends with its own grace, or with what is left of it if it
// had to stop before.
func (r *Recovery) KillOrphan(pod *runtime.Pod) podworkers.UpdateOptions {
	now := r.options.Clock.Now()
	update := podworkers.UpdateOptions{Type: podworkers.Kill, RunningPod: pod, StartTime: now}
	record := r.journal.Get(pod.UID)
	if record == nil || record.Pod == nil {
		return update
	}
	r.journal.Adopt(record.Pod)
	update.Pod, update.Kill = record.Pod, killOf(record, now)
	return update
}

// Remembered returns a pod as it was last desired, or nil.
func (r *Recovery) Remembered(uid types.UID) *v1.Pod {
	if record := r.journal.Get(uid); record != nil {
		return record.Pod
	}
	return nil
}

// KillRunning returns the update that stops a running pod without a worker as asked, because the node
// stops, completed with what is remembered of it. desired is nil if no source has named the pod.
func (r *Recovery) KillRunning(pod *runtime.Pod, desired *v1.Pod, kill podworkers.KillOptions) podworkers.UpdateOptions {
	update := podworkers.UpdateOptions{Type: podworkers.Kill, Pod: desired, RunningPod: pod, Kill: &kill, StartTime: r.options.Clock.Now()}
	if record := r.journal.Get(pod.UID); record != nil && record.Pod != nil {
		update.Kill = join(&kill, killOf(record, r.options.Clock.Now()))
		if desired == nil {
			update.Pod = record.Pod
		}
	}
	if update.Pod != nil {
		r.journal.adoptEarly(update.Pod)
		r.options.Statuses.Adopt(update.Pod)
	}
	return update
}

// killOf returns how to kill a remembered pod, whatever finds it (IN7): with what is left of its
// grace if it had to stop before, otherwise with its own.
func killOf(r *checkpoint.Record, now time.Time) *podworkers.KillOptions {
	kill := &podworkers.KillOptions{}
	if r.Termination == nil {
		return kill
	}
	kill.Evict, kill.StatusFunc = r.Termination.Evicted, amendBy(r.Termination.Decision)
	if left := r.Termination.RemainingGrace(now); left > 0 {
		kill.GracePeriodSeconds = &left
	}
	return kill
}

// join returns the requested kill, completed with the remembered one.
func join(asked, remembered *podworkers.KillOptions) *podworkers.KillOptions {
	if asked == nil {
		return remembered
	}
	out := *asked
	out.Evict = out.Evict || remembered.Evict
	if out.StatusFunc == nil {
		out.StatusFunc = remembered.StatusFunc
	}
	if left := remembered.GracePeriodSeconds; left != nil && (out.GracePeriodSeconds == nil || *left < *out.GracePeriodSeconds) {
		out.GracePeriodSeconds = left
	}
	return &out
}
