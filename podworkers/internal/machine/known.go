package machine

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// syncKnown compares the records with the desired pods (section 10) and yields
// every record that stays, in no particular order. It changes records in order
// of UID.
func (m *Machine) syncKnown(desired []*v1.Pod, yield func(types.UID, PodSync)) {
	m.podsSynced = true // S1
	m.visit++
	var changed []*record
	visited := 0
	for _, pod := range desired {
		if pod == nil {
			continue
		}
		r := m.records[pod.UID]
		if r == nil || r.visit == m.visit {
			continue
		}
		r.visit = m.visit
		visited++
		known := r.known(false) // S3, S5
		known.Restart = r.restartRequested && r.finished && !m.stopping
		yield(pod.UID, known)
	}
	if visited < len(m.records) { // otherwise there are no orphans to look for
		for uid, r := range m.records {
			switch {
			case r.visit == m.visit:
			case m.stopping:
				yield(uid, r.known(true))
			default: // S2
				changed = append(changed, r)
			}
		}
	}
	slices.SortFunc(changed, func(a, b *record) int { return cmp.Compare(a.uid, b.uid) })
	for _, r := range changed {
		switch {
		case r.finished: // S4
			m.forget(r, KillAlreadyTerminated)
		case !r.begun() && !r.observedRuntime: // S6a
			m.forget(r, KillNeverStarted)
		default:
			m.orphan(r)
			yield(r.uid, r.known(true))
		}
	}
}

// orphan makes sure that a pod that is not desired ends (S6b, S6c).
func (m *Machine) orphan(r *record) {
	first := !r.deleted
	r.deleted = true
	if !r.terminating {
		r.terminating = true
		r.attempts = 0
		pod := r.pod()
		r.shrinkGrace(pod, nil) // G6
		m.replay(r)
		m.cancel(r, CauseOrphaned)
		m.note(r, reasonOrphaned)
		return
	}
	// The back-off decides when a failing orphan is tried again; this only
	// makes sure that it is (S7).
	if r.step == idle && (first || r.dueSlot == 0) {
		m.replay(r)
	}
}

func (r *record) known(orphan bool) PodSync {
	return PodSync{State: r.state(), Orphan: orphan, HasConfig: r.pod() != nil, Static: r.static}
}
