package pods

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// stopNotes remembers what has been done to the containers that are being stopped, by
// pod and container ID, so that a repeated kill continues the earlier one
// (spec/runtime.md 16.6). If it is lost, a hook may run twice and a container gets two
// seconds more. It is guarded by Manager.mu.
type stopNotes map[types.UID]map[string]*stopNote

type stopNote struct {
	// hook is the preStop hook's run, nil if it has not begun, or was cut off.
	hook *hookRun
	// signalled is when the container was first told to stop.
	signalled time.Time
}

// hookRun is one run of a preStop hook.
type hookRun struct {
	// over is closed at the end of the run; ran, which may be read after that, is false if
	// the hook was cut off.
	over chan struct{}
	ran  bool
}

// of returns the container's note.
func (s stopNotes) of(uid types.UID, id string) *stopNote {
	if s[uid] == nil {
		s[uid] = map[string]*stopNote{}
	}
	if s[uid][id] == nil {
		s[uid][id] = &stopNote{}
	}
	return s[uid][id]
}

// forget drops the container's note.
func (s stopNotes) forget(uid types.UID, id string) {
	delete(s[uid], id)
	if len(s[uid]) == 0 {
		delete(s, uid)
	}
}

// beginPreStop returns the run of the container's hook, and whether it is the caller's:
// then the hook has not run yet, and the caller runs it and calls endPreStop.
func (m *Manager) beginPreStop(uid types.UID, id string) (run *hookRun, mine bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	note := m.stopping.of(uid, id)
	if note.hook != nil {
		return note.hook, false
	}
	note.hook = &hookRun{over: make(chan struct{})}
	return note.hook, true
}

// endPreStop ends a run of the hook. ran is false if the hook has to run again.
func (m *Manager) endPreStop(uid types.UID, id string, run *hookRun, ran bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	run.ran = ran
	close(run.over)
	if note := m.stopping[uid][id]; note != nil && note.hook == run && !ran {
		note.hook = nil
	}
}

// beginSignal notes that the container is told to stop and returns the least number
// of seconds that it must be given: the minimum counts from the first time.
func (m *Manager) beginSignal(uid types.UID, id string) (atLeast int64, first bool) {
	now := m.options.Clock.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	note := m.stopping.of(uid, id)
	if note.signalled.IsZero() {
		note.signalled = now
		return minimumGrace, true
	}
	return minimumLeft(now.Sub(note.signalled)), false
}

// changeNote lets change correct the container's note.
func (m *Manager) changeNote(uid types.UID, id string, change func(*stopNote)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(m.stopping.of(uid, id))
}

// forgetStop drops the note of a container that has stopped.
func (m *Manager) forgetStop(uid types.UID, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopping.forget(uid, id)
}
