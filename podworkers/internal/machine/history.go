package machine

import "time"

// Reason says why a transition was recorded.
type Reason uint8

const (
	// reasonUpdate plus the type of the update.
	reasonUpdate Reason = iota
	reasonTake   Reason = iota + 3
	reasonSetupOK
	reasonSetupTerminal
	reasonTerminatingOK
	reasonTerminatedOK
	reasonNeverStarted
	reasonOrphaned
	reasonBlocked
	reasonRestart
	reasonCanceled
	reasonHeld
	// reasonFailed plus the phase of the call.
	reasonFailed
	reasons = reasonFailed + 4
)

// String returns the reason in words.
func (w Reason) String() string {
	return [reasons]string{
		"sync requested", "updated", "created", "kill requested",
		"round began", "setup done", "setup found the pod ended", "containers stopped", "everything released",
		"ended before it was started", "no longer desired", "start blocked", "restart requested", "call cancelled", "start waits for a removal",
		"setup failed", "terminating failed", "terminating failed", "terminated step failed",
	}[w]
}

// repeats reports whether the reason is worth an entry without a change of state.
func (w Reason) repeats() bool {
	switch w {
	case reasonSetupOK, reasonBlocked, reasonRestart, reasonCanceled, reasonHeld:
		return true
	default:
		return w >= reasonFailed
	}
}

// maxHistory is how many entries a record keeps.
const maxHistory = 50

// entry is one history entry in eight bytes: milliseconds since the record's
// creation (40 bits: 34 years), from and to state (4 bits each), reason (8
// bits), and the number of repetitions (8 bits, up to 255).
type entry uint64

func newEntry(at time.Duration, from, to State, why Reason) entry {
	ms := uint64(at.Milliseconds()) & (1<<40 - 1) //nolint:gosec // never negative
	return entry(ms<<24 | uint64(from)<<20 | uint64(to)<<16 | uint64(why)<<8 | 1)
}

func (e entry) at() time.Duration { return time.Duration(e>>24) * time.Millisecond } //nolint:gosec // 40 bits
func (e entry) from() State       { return State(e >> 20 & 15) }
func (e entry) to() State         { return State(e >> 16 & 15) }
func (e entry) why() Reason       { return Reason(e >> 8 & 255) }
func (e entry) count() int        { return int(e & 255) }

// note records the history and the time of the last change of state. It is called
// wherever the state may have changed or something worth an entry happened.
func (m *Machine) note(r *record, why Reason) {
	from, to := r.seen, r.state()
	if from != to {
		if from != Unknown {
			m.leave(r)
		}
		r.seen, r.since = to, m.now
	} else if !why.repeats() {
		return
	}
	e := newEntry(m.now-r.syncedAt, from, to, why)
	if n := len(r.history); n > 0 {
		last := r.history[n-1]
		if last&0xFFFF00 == e&0xFFFF00 {
			if last.count() < 255 {
				r.history[n-1]++
			}
			return
		}
		if n == maxHistory {
			copy(r.history, r.history[1:])
			r.history[n-1] = e
			return
		}
	}
	if r.history == nil {
		r.history = make([]entry, 0, 4) // enough for a pod until it is idle
	}
	r.history = append(r.history, e)
}
