package machine

import (
	"slices"
)

// fullName holds the static pods of one full name (N1, N2).
type fullName struct {
	// owner is the one that may be started; nil if the name is free.
	owner *record
	// waiting are the others that want to start, in order of their first
	// update, including those already asked to terminate.
	waiting []*record
}

// wait puts a static pod at the end of the waiting list of its name (U11).
func (m *Machine) wait(r *record) {
	x := r.extra()
	n := m.names[x.fullName]
	if n == nil {
		n = &fullName{}
		m.names[x.fullName] = n
	}
	if n.owner != r && !slices.Contains(n.waiting, r) {
		n.waiting = append(n.waiting, r)
		m.waitingStatic++
	}
}

// claim makes the record the owner of its name and ends its waiting (W8).
func (m *Machine) claim(r *record) {
	n := m.names[r.rare.fullName]
	m.leaveWaiting(n, r)
	n.owner = r
}

func (m *Machine) leaveWaiting(n *fullName, r *record) {
	if i := slices.Index(n.waiting, r); i >= 0 {
		n.waiting = slices.Delete(n.waiting, i, i+1)
		m.waitingStatic--
	}
}

// release gives up the record's name, or its place in the line for it, and wakes the next pod (N4, S9).
func (m *Machine) release(r *record) {
	if r.rare == nil || r.rare.fullName == "" {
		return
	}
	name := r.rare.fullName
	n := m.names[name]
	if n == nil {
		return
	}
	m.leaveWaiting(n, r)
	if n.owner == r {
		n.owner = nil
	}
	if n.owner == nil && len(n.waiting) == 0 {
		delete(m.names, name)
		return
	}
	m.wakeNext(name)
}

// turn is the waiter that may start next: the first that has not been asked to
// terminate and waits for no removal.
func (m *Machine) turn(n *fullName) *record {
	for _, r := range n.waiting {
		if !r.terminating && !m.held(r) {
			return r
		}
	}
	return nil
}

// wakeNext makes the next waiter of a free name try again at once.
func (m *Machine) wakeNext(name string) {
	n := m.names[name]
	if n == nil || n.owner != nil {
		return
	}
	if r := m.turn(n); r != nil && r.step == idle && r.hasPending {
		m.enqueue(r)
	}
}
