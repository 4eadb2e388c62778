package machine

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Hold keeps a new life of a UID from starting while something of an earlier one is being
// removed (IN3). A UID may have several: its folder and its cgroup go side by side.
type Hold struct {
	// ID distinguishes it from other holds; never 0.
	ID uint64
	// Reason says what is being removed.
	Reason string
	Since  time.Duration
	// Handle belongs to the shell.
	Handle any
}

// hold grants a hold and returns its ID, or 0 if a life of the UID is under way. This includes
// a life that waits to start: otherwise removals could take turns in keeping it from starting.
func (m *Machine) hold(uid types.UID, h Hold) uint64 {
	if r := m.records[uid]; r != nil && !r.terminated {
		return 0
	}
	m.lastHold++
	h.ID, h.Since = m.lastHold, m.now
	m.holds[uid] = append(m.holds[uid], h)
	return h.ID
}

// unhold ends a hold. After the last one, a waiting life may start.
func (m *Machine) unhold(uid types.UID, id uint64) {
	left := slices.DeleteFunc(m.holds[uid], func(h Hold) bool { return h.ID == id })
	if len(left) > 0 {
		m.holds[uid] = left
		return
	}
	delete(m.holds, uid)
	if r := m.records[uid]; r != nil && r.step == idle && r.hasPending && !r.begun() {
		m.enqueue(r)
	}
}

// held reports whether the start of a pod has to wait for a removal. A pod that has to stop
// need not wait, because it creates nothing that a removal could meet.
func (m *Machine) held(r *record) bool {
	return len(m.holds) > 0 && len(m.holds[r.uid]) > 0 && r.phase() == Setup
}

// waitForRemoval leaves the update pending until the last hold is gone, and asks the holders
// to stop before their next destructive step. No other pod waits behind it for a static name:
// a hold is older than the life that waits for it, so that life has not had its turn (see turn).
func (m *Machine) waitForRemoval(r *record) {
	for _, h := range m.holds[r.uid] {
		m.emit(EffectCutRemoval, r).Handle = h.Handle
	}
	m.note(r, reasonHeld)
}
