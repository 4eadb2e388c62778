package pods

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Refresh makes a SyncPod of the pod that waits for a pull write the volumes of config maps,
// secrets, tokens and the pod's fields again: a pull may take long, and concerns only a part of
// the pod (IN15). Otherwise it does nothing: the next SyncPod writes them, whatever else it has
// to do. It does not block.
func (m *Manager) Refresh(uid types.UID) { m.refreshes.tell(uid) }

// refreshes are the pods that wait for a pull and are told of changes meanwhile.
type refreshes struct {
	mu      sync.Mutex
	hearers map[types.UID]chan struct{}
}

// hear returns a channel that signals changes until done is called. A pod has one SyncPod at a time.
func (r *refreshes) hear(uid types.UID) (changes <-chan struct{}, done func()) {
	c := make(chan struct{}, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hearers == nil {
		r.hearers = map[types.UID]chan struct{}{}
	}
	r.hearers[uid] = c
	return c, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.hearers, uid)
	}
}

// tell signals a change to the pod, if it listens.
func (r *refreshes) tell(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case r.hearers[uid] <- struct{}{}: // a nil channel takes nothing
	default: // it does not listen, or the signal is pending
	}
}
