package machine

import "k8s.io/apimachinery/pkg/types"

// The predicates of spec/podworkers.md 11. For a UID without record the answer
// depends on whether the desired pods were ever known completely.

// Known: the pod has a record.
func (m *Machine) Known(uid types.UID) bool { return m.records[uid] != nil }

// KnownTerminated: the record says that no container runs or will.
func (m *Machine) KnownTerminated(uid types.UID) bool {
	r := m.records[uid]
	return r != nil && r.terminated
}

// CouldHaveRunningContainers: containers may be running.
func (m *Machine) CouldHaveRunningContainers(uid types.UID) bool {
	if r := m.records[uid]; r != nil {
		return !r.terminated
	}
	return !m.podsSynced
}

// ShouldBeFinished: everything held for the pod should be released.
func (m *Machine) ShouldBeFinished(uid types.UID) bool {
	if r := m.records[uid]; r != nil {
		return r.finished
	}
	return m.podsSynced
}

// IsTerminationRequested: the record says that the pod has to stop.
func (m *Machine) IsTerminationRequested(uid types.UID) bool {
	r := m.records[uid]
	return r != nil && r.terminating
}

// ContainersShouldBeTerminating: no container may be started any more.
func (m *Machine) ContainersShouldBeTerminating(uid types.UID) bool {
	if r := m.records[uid]; r != nil {
		return r.startedTerminating
	}
	return m.podsSynced
}

// RuntimeShouldBeRemoved: sandboxes and containers may go.
func (m *Machine) RuntimeShouldBeRemoved(uid types.UID) bool {
	if r := m.records[uid]; r != nil {
		return r.terminated
	}
	return m.podsSynced
}

// ContentShouldBeRemoved: logs and dead containers may go.
func (m *Machine) ContentShouldBeRemoved(uid types.UID) bool {
	if r := m.records[uid]; r != nil {
		return r.evicted || r.deleted && r.terminated
	}
	return m.podsSynced
}

// StaticNameTerminating: the static pod that owns this full name terminates.
func (m *Machine) StaticNameTerminating(name string) bool {
	n := m.names[name]
	return n != nil && n.owner != nil && n.owner.terminating && !n.owner.terminated
}
