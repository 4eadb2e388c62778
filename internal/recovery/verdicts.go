package recovery

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop/admission"
)

// verdicts keeps the verdicts of admission in the pods' records.
type verdicts struct {
	recovery     *Recovery
	shuttingDown func() bool
}

// Verdicts returns the memory of admission (spec/syncloop.md AD5). shuttingDown reports
// whether the node is about to stop.
func (r *Recovery) Verdicts(shuttingDown func() bool) admission.Verdicts {
	return verdicts{r, shuttingDown}
}

// Verdict returns what was decided about a pod, which is not known until the records are loaded.
func (v verdicts) Verdict(pod *v1.Pod) (admission.Verdict, bool, error) {
	if !timing.Ended(v.recovery.journal.loaded) {
		return admission.Verdict{}, false, ErrNotLoaded
	}
	r, source := v.recovery.journal.Get(pod.UID), pod.Annotations[podinfo.AnnotationSource]
	switch {
	case r != nil && source != "" && r.Source != "" && r.Source != source: // PS6
		return admission.Verdict{}, false, nil
	case r == nil || r.Admission == nil, refusedForShutdown(r) && !v.shuttingDown(), v.recovery.journal.beginsLife(pod, r):
		return admission.Verdict{}, false, nil
	case !r.Admission.Refused:
		return admission.Verdict{}, true, nil
	}
	known := podinfo.ShowsEnd(pod) || !v.recovery.journal.reviews(r)
	return admission.Verdict{Reason: r.Admission.Reason, Message: r.Admission.Message}, known, nil
}

// Remember records a verdict, which is soon on the disk. Setup waits for that (CK5), and so do the
// sinks for the status of a refused pod. A verdict on another life than that on record begins it.
func (v verdicts) Remember(pod *v1.Pod, verdict admission.Verdict) error {
	j := v.recovery.journal
	at := j.clock.Now()
	if r := j.Get(pod.UID); r != nil && (j.beginsLife(pod, r) || verdict.Admitted() && j.overturns(r)) {
		j.nextLife(pod.UID, r, pod.Annotations[podinfo.AnnotationSource])
	}
	j.keeper.Ensure(pod.UID, func(r *checkpoint.Record) checkpoint.Class {
		describe(r, pod)
		r.Admission = &checkpoint.Admission{At: at, Refused: !verdict.Admitted(), Reason: verdict.Reason, Message: verdict.Message}
		return checkpoint.Durable
	})
	j.mu.Lock()
	defer j.mu.Unlock()
	j.judged[pod.UID] = true
	return nil
}

// beginsLife reports whether the pod, as its source wants it, is another life than that on record, to which this process has
// done nothing yet. The verdict on the earlier life says nothing about it: it may ask for more.
func (j *Journal) beginsLife(pod *v1.Pod, r *checkpoint.Record) bool {
	named := pod.Annotations[podinfo.AnnotationSource] != ""
	return named && !j.Handed(pod.UID) && (j.isRetired(r) || continuationOf(pod, r, j.clock.Now()).newLife)
}

// reviews reports whether a static pod that an earlier process refused is judged again in this one: the configuration, the
// runtime or the machine may be another. One that lacked room, or came at a bad time, has its own way back (IN14).
func (j *Journal) reviews(r *checkpoint.Record) bool {
	a := r.Admission
	own := admission.Verdict{Reason: a.Reason}.LacksRoom() || a.Reason == podinfo.ReasonEvicted || a.Reason == admission.ReasonShutdown
	j.mu.Lock()
	defer j.mu.Unlock()
	return a.Refused && !own && podinfo.Static(podOf(r)) && r.StartedAt.IsZero() && !j.judged[r.UID]
}

// Lowering returns how a pod on record may be now, given how that is for one that was admitted (PS7): one that was refused and is
// judged again is judged as its source wants it.
func (j *Journal) Lowering(lower func(pod *v1.Pod) (lowered *v1.Pod, why string)) func(*v1.Pod) (*v1.Pod, string) {
	return func(pod *v1.Pod) (*v1.Pod, string) {
		if r := j.keeper.Get(pod.UID); r != nil && r.Admission != nil && j.reviews(r) {
			return pod, ""
		}
		return lower(pod)
	}
}

// overturns reports whether a pod that is admitted now was refused before, by another process or under another source, and never
// began: the end that its status shows is over.
func (j *Journal) overturns(r *checkpoint.Record) bool {
	return r.Admission != nil && r.Admission.Refused && r.StartedAt.IsZero() && !j.Handed(r.UID)
}

// Continues reports whether a pod of a source was admitted and lives on, in this process or from
// before its start: what its source may run now is about pods that arrive (AD5). It is false until
// the records are loaded.
func (j *Journal) Continues(pod *v1.Pod) bool {
	r := j.keeper.Get(pod.UID)
	if r == nil || r.Admission == nil || r.Admission.Refused || r.Source != pod.Annotations[podinfo.AnnotationSource] || j.isRetired(r) {
		return false
	}
	if j.Handed(pod.UID) {
		return true
	}
	next := continuationOf(pod, r, j.clock.Now())
	return !next.newLife && !next.again
}

// Refused reports whether the pod was refused.
func (j *Journal) Refused(uid types.UID) bool {
	r := j.keeper.Get(uid)
	return r != nil && r.Admission != nil && r.Admission.Refused
}

// refusedForShutdown reports whether a static pod was refused only because its node was about to
// stop: it is judged again when the node is back.
func refusedForShutdown(r *checkpoint.Record) bool {
	return r.Admission.Refused && r.Admission.Reason == admission.ReasonShutdown && r.Pod != nil && podinfo.Static(r.Pod)
}
