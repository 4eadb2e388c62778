package recovery

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/restartpolicy"
	"github.com/podwright/podwright/status/checkpoint"
)

// A UID can have several lives, one after the other: a static pod that its source removed and wants
// again keeps its UID.

// Renew begins a new life of a UID: it replaces the record by one that knows only that there was an
// earlier life. This is a single write, so that an agent that is killed meanwhile does not take the
// remains of that life for the pod.
func (j *Journal) Renew(uid types.UID) {
	j.keeper.Update(uid, func(r *checkpoint.Record) checkpoint.Class {
		pod := r.Pod
		*r = checkpoint.Record{EarlierLife: true, Lives: r.Lives + 1}
		if pod != nil {
			describe(r, pod)
		}
		return checkpoint.Durable
	})
	j.forget(uid)
}

// Ending returns the remembered pods that had to stop and have not finished. One that was refused before it began
// holds nothing, and has no worker that would finish it.
func (j *Journal) Ending() []*v1.Pod {
	var out []*v1.Pod
	for _, r := range j.keeper.All() {
		refused := r.Admission != nil && r.Admission.Refused && r.StartedAt.IsZero()
		if r.Termination != nil && !refused && !r.Finished && !r.Retired {
			out = append(out, podOf(r))
		}
	}
	return out
}

// Holding returns the remembered pods that were admitted and whose containers are not known to have
// stopped.
func (j *Journal) Holding() []*v1.Pod {
	var out []*v1.Pod
	for _, r := range j.keeper.All() {
		admitted := r.Admission != nil && !r.Admission.Refused
		if r.Pod != nil && admitted && r.TerminatedAt.IsZero() && !r.Finished && !j.isRetired(r) {
			out = append(out, r.Pod)
		}
	}
	return out
}

// Began reports whether a container of a pod on record was started, and its containers are not
// known to have stopped.
func (j *Journal) Began(uid types.UID) bool {
	r := j.keeper.Get(uid)
	return r != nil && !r.StartedAt.IsZero() && r.TerminatedAt.IsZero() && !r.Finished
}

// Life returns when the life on record was admitted, and whether a container was started in it. That an earlier agent started
// one may not have been written.
func (j *Journal) Life(uid types.UID) (admitted time.Time, started bool) {
	r := j.keeper.Get(uid)
	if r == nil {
		return time.Time{}, false
	}
	if r.Admission != nil {
		admitted = r.Admission.At
	}
	return admitted, !r.StartedAt.IsZero()
}

// retiredWriteAfter is how long to wait before recording that a life is over: most sinks take an
// end within that time, and then the record is removed anyway.
const retiredWriteAfter = 10 * time.Second

// retire records that the life of a UID is over although its record stays, for sinks that have not
// taken its end or for what the runtime still has of it (IN10).
func (j *Journal) retire(r *checkpoint.Record) {
	now := j.clock.Now()
	j.mu.Lock()
	delete(j.handed, r.UID)
	delete(j.early, r.UID)
	since, known := j.retired[r.UID]
	if !known {
		since = now
		j.retired[r.UID] = now
	}
	j.mu.Unlock()
	if r.Retired || now.Sub(since) < retiredWriteAfter {
		return
	}
	j.keeper.Update(r.UID, func(r *checkpoint.Record) checkpoint.Class {
		r.Retired = true
		return checkpoint.Durable
	})
}

// isRetired reports whether the life in the record is over.
func (j *Journal) isRetired(r *checkpoint.Record) bool {
	if r == nil {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return r.Retired || !j.retired[r.UID].IsZero()
}

// renewRetired begins new lives for pods of a source whose UID is retired, before anything is decided about
// them.
func (j *Journal) renewRetired(source string, pods []*v1.Pod) {
	for _, p := range pods {
		r := j.keeper.Get(p.UID)
		if !j.isRetired(r) && !j.putBack(p, r) {
			continue
		}
		j.nextLife(p.UID, r, source)
	}
}

// nextLife begins the next life of a UID, for the source that had it or for another one.
func (j *Journal) nextLife(uid types.UID, r *checkpoint.Record, source string) {
	if r.Source == source || r.Source == "" {
		j.beginLife(uid)
	} else {
		j.giveUp(uid)
	}
}

// giveUp is beginLife for a source that did not have the UID: the former source wants nothing of it any more, and must not
// own it again, nor have the pod stand in for it (PS6, IN10).
func (j *Journal) giveUp(uid types.UID) {
	j.options.Renewed(uid)
	j.keeper.Update(uid, func(r *checkpoint.Record) checkpoint.Class {
		*r = checkpoint.Record{EarlierLife: true, Lives: r.Lives + 1}
		return checkpoint.Durable
	})
	j.forget(uid)
}

// putBack reports whether a source names a pod again that it did not name when this agent asked first, and
// that had ended by then. This agent was never handed it, so its life is not retired (IN10).
func (j *Journal) putBack(pod *v1.Pod, r *checkpoint.Record) bool {
	return r != nil && r.Unwanted && r.Finished && podinfo.Static(podOf(r)) && pod.DeletionTimestamp == nil && !j.Handed(pod.UID)
}

// beginLife begins a new life of a UID that a source wants again, of which nothing is known but that there was an earlier one.
func (j *Journal) beginLife(uid types.UID) {
	j.options.Renewed(uid) // first, so that nothing of the earlier life gets into the new record
	j.Renew(uid)
}

// Lived reports whether the UID had a life before this one.
func (j *Journal) Lived(uid types.UID) bool {
	r := j.keeper.Get(uid)
	return r != nil && r.Lives > 0
}

// EarlierLife reports whether the runtime may still have containers of an earlier life of
// the UID, whose ends do not count for the pod.
func (j *Journal) EarlierLife(uid types.UID) bool {
	r := j.keeper.Get(uid)
	return r != nil && r.EarlierLife
}

// EarlierLifeGone records that these containers are removed. That is on the disk before the first
// container of the new life starts, so that it is not taken for one of the earlier life.
func (j *Journal) EarlierLifeGone(ctx context.Context, uid types.UID) error {
	j.keeper.Update(uid, func(r *checkpoint.Record) checkpoint.Class {
		r.EarlierLife = false
		return checkpoint.Durable
	})
	return j.keeper.Sync(ctx, uid)
}

// staysStopped reports whether there is an exit after which a container of the pod does not run
// again.
func staysStopped(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c v1.Container) bool {
		return restartpolicy.Effective(pod, &c) != v1.RestartPolicyAlways
	})
}

// Drained ends the life of a pod that was stopped by a drain, so that it starts again when the node returns. A static pod stays
// on record without that life, so that it does so although its source may be silent then (SN5), unless the source has dropped it: wanted
// says that the source still names it. The record of a pod that had ended on its own stays.
func (j *Journal) Drained(uid types.UID, wanted bool) {
	r := j.keeper.Get(uid)
	if r == nil || r.Terminal() {
		return
	}
	j.mu.Lock()
	j.drained[uid] = true
	j.mu.Unlock()
	if standsIn(r) && (wanted || r.Termination == nil) {
		j.Renew(uid)
	} else {
		j.Delete(uid)
	}
}

// standsIn reports whether the next life of a pod may begin from memory: its source did not drop it in its first answer, and it is
// not being deleted.
func standsIn(r *checkpoint.Record) bool {
	return r.Pod != nil && podinfo.Static(r.Pod) && r.Pod.DeletionTimestamp == nil && !r.Unwanted && (r.Termination == nil || !r.Termination.Deleted)
}

// isDrained reports whether a drain has ended the pod's life: what is reported of it since belongs to that life.
func (j *Journal) isDrained(uid types.UID) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.drained[uid]
}
