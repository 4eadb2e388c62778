package podwright

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/status/checkpoint"
)

// leftoverAge is how long the record of a pod is kept that nobody knows and that
// this process has never been handed (spec/cleanup.md CK7).
const leftoverAge = 24 * time.Hour

// RemoveOrphanedStatuses is the housekeeper's step 7: statuses and records of pods
// go that neither the sources nor the workers know (spec/status.md 7.10, CK7).
// Where a source may want pods that it could not name yet, nothing goes that this
// process has not been handed.
func (s statuses) RemoveOrphanedStatuses(desired map[types.UID]struct{}) {
	e := s.engine
	known := maps.Clone(desired)
	undecided := e.loop.Undecided() != nil
	now := e.config.Clock.Now()
	for _, r := range e.journal.keeper.All() {
		if e.overlooked(r) {
			if view, err := e.pleg.Get(r.UID); err == nil && !view.Running() {
				e.concluded(r, view)
			}
		}
		if _, ok := known[r.UID]; ok {
			continue
		}
		if _, desired := e.loop.Store().Get(r.UID); desired && !e.journal.knows(r.UID) {
			known[r.UID] = struct{}{} // it came since the pass began, and is not handed over yet
			continue
		}
		if _, busy := e.workers.Explain(r.UID); busy {
			known[r.UID] = struct{}{}
			continue
		}
		met := e.journal.knows(r.UID)
		if _, wanted := e.loop.Store().Get(r.UID); wanted {
			// The housekeeper starts it. After an end that is a new life, with a
			// record of its own; before any worker has had it, it is still the old one.
			if met && r.Finished {
				e.journal.keeper.Delete(r.UID)
				e.journal.forget(r.UID)
			} else {
				known[r.UID] = struct{}{}
			}
			continue
		}
		view, err := e.pleg.Get(r.UID)
		switch {
		case err != nil || undecided && !met:
			known[r.UID] = struct{}{}
		case view.Running():
			known[r.UID] = struct{}{} // until it was stopped
		case !r.Finished && r.Pod != nil && !met:
			// It ended while no agent was there to see it, and no worker will ever
			// look at it: its end is told now (HI7).
			e.concluded(r, view)
			known[r.UID] = struct{}{}
		case !settledAt(r, s.sinks) && now.Sub(r.WrittenAt) < leftoverAge:
			known[r.UID] = struct{}{} // ND10
		case met || now.Sub(r.WrittenAt) >= leftoverAge:
			e.journal.keeper.Delete(r.UID)
			e.journal.forget(r.UID)
		}
	}
	e.journal.keeper.Dismiss(func(uid types.UID) bool { _, ok := known[uid]; return ok })
	s.Manager.RemoveOrphanedStatuses(known)
}

// overlooked reports whether a pod is over and its last status was never told: the
// agent was killed after the end of its containers, and no worker takes a step for a
// static pod that had ended before this process met it (spec/podworkers.md W6).
func (e *Engine) overlooked(r *checkpoint.Record) bool {
	if !r.Terminal() || r.Finished || r.Pod == nil {
		return false
	}
	worker, known := e.workers.Explain(r.UID)
	return known && worker.State == "finished"
}

// settledAt reports whether every sink has the end of a pod, if it has one.
func settledAt(r *checkpoint.Record, sinks []string) bool {
	if !r.Terminal() && !r.Finished {
		return true
	}
	for _, sink := range sinks {
		if r.Acked(sink).Version < r.Version {
			return false
		}
	}
	return true
}

// concluded publishes the end of a pod of which nothing runs and for which no worker
// will do it.
func (e *Engine) concluded(r *checkpoint.Record, view *runtime.PodStatus) {
	e.journal.remember(r.Pod)
	if err := e.syncer.PublishEnd(r.Pod, view); err != nil {
		e.config.Observe.Logger.Error(err, "the end of a pod cannot be told", "uid", r.UID)
	}
}
