package machine

import (
	"cmp"
	"slices"
)

// stop begins a stop of all calls or pods (L9). A second stop can only be more urgent.
func (m *Machine) stop(s Stop) {
	if s.Mode == StopTerminate {
		if !m.stopping && !m.draining {
			m.drain(s.Grace)
		}
		return
	}
	m.stopping = true
	for _, r := range m.sorted() {
		switch r.step {
		case viewing:
			m.cancel(r, CauseStopping)
		case calling:
			if s.Mode == StopNow || r.call.Phase == Setup {
				m.cancel(r, CauseStopping)
			}
			continue // its completions wait for its end
		case ready:
			m.ready.remove(r)
			r.step, r.call = idle, nil
		case observing:
			r.step = idle
		}
		m.unschedule(r)
		m.complete(r, KillStopped)
	}
}

// sorted returns all records in order of UID.
func (m *Machine) sorted() []*record {
	all := make([]*record, 0, len(m.records))
	for _, r := range m.records {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *record) int { return cmp.Compare(a.uid, b.uid) })
	return all
}

// drain requests the termination of every pod. A grace longer than a pod's own does not count (G9).
func (m *Machine) drain(grace *int64) {
	for _, r := range m.sorted() {
		u := &Update{Type: TypeKill, Pod: r.pod(), Kill: &Kill{Grace: grace}}
		if u.Pod != nil && u.Pod.DeletionGracePeriodSeconds == nil && grace != nil && *grace > specGrace(u.Pod) {
			u.Kill.Grace = nil
		}
		if u.Pod == nil {
			u.Running = r.active.running
			if r.hasPending {
				u.Running = r.pending.running
			}
		}
		m.accept(r.uid, u, u.Pod == nil)
	}
	m.draining = true
}

// checkDrained reports, once, that nothing is left to terminate.
func (m *Machine) checkDrained() {
	if m.inFlight > 0 || !m.AllFinished() {
		return
	}
	m.stopping = true
	m.effects = append(m.effects, Effect{Kind: EffectDrained})
}

// AllFinished reports whether every pod has finished.
func (m *Machine) AllFinished() bool {
	for _, r := range m.records {
		if !r.finished {
			return false
		}
	}
	return true
}
