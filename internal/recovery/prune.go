package recovery

import (
	"maps"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/status/checkpoint"
)

// leftoverAge is how long a record is kept if its pod is otherwise unknown and was never handed to
// this process (spec/cleanup.md CK7).
const leftoverAge = 24 * time.Hour

// Desired are the pods that sources want.
type Desired interface {
	// Get returns the pod if a source wants it.
	Get(uid types.UID) (*v1.Pod, bool)
}

// Workers are the pods' workers.
type Workers interface {
	// IsPodKnown reports whether the pod has a worker.
	IsPodKnown(uid types.UID) bool
	// ShouldPodBeFinished reports whether the worker of the pod has done its last step.
	ShouldPodBeFinished(uid types.UID) bool
}

// PrunerOptions configures a [Pruner]. All fields except Logger are required.
type PrunerOptions struct {
	Journal *Journal
	Desired Desired
	Workers Workers
	// Undecided returns why sources may want pods that they have not named, nil if all have named
	// theirs.
	Undecided func() error
	// View returns what the runtime has of a pod; an error means that this is not known.
	View func(uid types.UID) (*runtime.PodStatus, error)
	// TellEnd makes the final status of a pod that has nothing running and no worker to make it.
	TellEnd func(pod *v1.Pod, view *runtime.PodStatus) error
	// Forget drops the statuses of all pods that are not in known.
	Forget func(known map[types.UID]struct{})
	// Untold reports whether a sink does not know yet that a pod is forgotten.
	Untold func(uid types.UID) bool
	// Sinks are the names of the sinks that take statuses.
	Sinks  []string
	Clock  clock.PassiveClock
	Logger logr.Logger
}

// Pruner removes records that are no longer of use.
type Pruner struct{ options PrunerOptions }

// NewPruner returns a pruner.
func NewPruner(options PrunerOptions) *Pruner { return &Pruner{options} }

// RemoveOrphanedStatuses is the housekeeper's step 7: it removes statuses and records of pods that
// neither the sources nor the workers know (spec/status.md 7.10, CK7). The end of a pod that ended
// unseen is reported first (HI7).
func (p *Pruner) RemoveOrphanedStatuses(desired map[types.UID]struct{}) {
	j := p.options.Journal
	known := maps.Clone(desired)
	undecided := p.options.Undecided() != nil
	var removed, renewed []*checkpoint.Record
	for _, r := range j.keeper.All() {
		_, inSnapshot := desired[r.UID]
		if inSnapshot && (!r.Terminal() || r.Finished) {
			continue // the usual case, at no cost
		}
		s, view := p.situation(r, undecided)
		s.inSnapshot = inSnapshot
		fate := fateOf(r, s)
		if fate.tellEnd {
			p.tellEnd(r, view)
		}
		if fate.known {
			known[r.UID] = struct{}{}
		}
		switch {
		case fate.newLife:
			renewed = append(renewed, r)
		case fate.retire:
			j.retire(r)
		case fate.remove:
			removed = append(removed, r)
		}
	}
	j.keeper.Dismiss(func(uid types.UID) bool { _, ok := known[uid]; return ok })
	p.options.Forget(known)
	for _, r := range renewed { // now nothing of the earlier life gets into the new record
		if now := j.Get(r.UID); now != nil && now.Lives == r.Lives { // otherwise a source has renewed it since
			j.Renew(r.UID)
		}
	}
	p.remove(removed)
}

// remove removes records once the sinks know that their pods are forgotten (FG1): until then, the
// records are kept for the next agent, and for nothing else (IN10).
func (p *Pruner) remove(records []*checkpoint.Record) {
	for _, r := range records {
		if p.options.Untold(r.UID) && p.options.Clock.Since(r.WrittenAt) < leftoverAge {
			p.options.Journal.retire(r)
			continue
		}
		p.options.Journal.Delete(r.UID)
	}
}

// situation is everything, besides the record, that decides about a record.
type situation struct {
	// inSnapshot: the pod was desired when the pass began; desired: it is now.
	inSnapshot, desired bool
	// handed: this process was handed the pod, or an earlier one retired it.
	handed bool
	// hasWorker: it has a worker. workerFinished: that worker has done its last step.
	hasWorker, workerFinished bool
	// readable: it is known what the runtime has of the pod. runs: something of it is running.
	// remains: something of it exists.
	readable, runs, remains bool
	// undecided: sources may want pods that they have not named.
	undecided bool
	// acknowledged: every sink has the end of the pod, if it has one.
	acknowledged bool
	// age of the record.
	age time.Duration
}

func (p *Pruner) situation(r *checkpoint.Record, undecided bool) (situation, *runtime.PodStatus) {
	s := situation{
		handed: p.options.Journal.Handed(r.UID) || p.options.Journal.isRetired(r), undecided: undecided,
		acknowledged: !r.Terminal() && !r.Finished || acknowledgedBy(r, p.options.Sinks),
		age:          p.options.Clock.Now().Sub(r.WrittenAt),
	}
	_, s.desired = p.options.Desired.Get(r.UID)
	s.hasWorker = p.options.Workers.IsPodKnown(r.UID)
	s.workerFinished = s.hasWorker && p.options.Workers.ShouldPodBeFinished(r.UID)
	view, err := p.options.View(r.UID)
	s.readable = err == nil
	s.runs = err == nil && view.Running()
	s.remains = err == nil && len(view.Sandboxes)+len(view.Containers) > 0
	return s, view
}

// fate says what happens to a record.
type fate struct {
	// tellEnd: the end of the pod is reported now.
	tellEnd bool
	// known: the status of the pod stays. remove: its record is removed. newLife: it is removed
	// because the UID begins a new life.
	known, remove, newLife bool
	// retire: the record stays, for a life that is over.
	retire bool
}

// fateOf decides what happens to a record (CK7, HI7). While a source may want pods that it has not
// named, nothing is removed that this process was not handed.
func fateOf(r *checkpoint.Record, s situation) fate {
	// The pod is over but its last status was never sent: the agent was killed after the pod's
	// containers had ended, and a worker takes no step for a static pod that had ended before this
	// process was handed it (spec/podworkers.md W6).
	overlooked := s.workerFinished && r.Terminal() && !r.Finished && r.Pod != nil && s.readable && !s.runs
	keep := fate{tellEnd: overlooked, known: true}
	old := s.age >= leftoverAge
	switch {
	case s.inSnapshot:
		return keep
	case s.desired && !s.handed: // it came since the pass began, and has not been handed over yet
		return keep
	case s.desired && s.workerFinished && (r.Finished || r.Termination != nil):
		return fate{newLife: true} // the housekeeper starts it in this pass, and forgets the worker then
	case s.hasWorker:
		return keep
	case s.desired && (r.Finished || r.Termination != nil && s.readable && !s.runs):
		return fate{newLife: true} // the housekeeper starts it, because its worker is gone
	case s.desired: // no worker has had it, so it is still the old life
		return keep
	case !s.readable || s.undecided && !s.handed:
		return keep
	case s.runs: // until it is stopped
		return keep
	case r.EarlierLife && r.Admission == nil: // the new life never began, and the end of the earlier one was sent
		// Without the record, what is left of that one would be taken for the next pod's with this UID.
		left := s.remains && !old
		return fate{retire: left, known: left, remove: !left}
	case !r.Finished && r.Pod != nil && (!s.handed || !r.StartedAt.IsZero()):
		// It ended before a worker looked at it, if it ever had one; no worker will now.
		return fate{tellEnd: true, known: true}
	case podinfo.Static(podOf(r)) && s.handed && !old && (!s.acknowledged || s.remains):
		// A pod of an API lives only once per UID. Any other may come back, and then does so as if
		// nothing were left of this life (IN10).
		return fate{retire: true, known: true}
	case !s.acknowledged && !old: // ND10
		return keep
	}
	return fate{remove: s.handed || old}
}

// tellEnd makes the final status of a pod.
func (p *Pruner) tellEnd(r *checkpoint.Record, view *runtime.PodStatus) {
	p.options.Journal.Adopt(r.Pod)
	if err := p.options.TellEnd(r.Pod, view); err != nil {
		p.options.Logger.Error(err, "Cannot report the end of a pod", "uid", r.UID)
	}
}
