package pods

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Refresh has the volumes of config maps, secrets, tokens and the pod's fields written again
// while a SyncPod of the pod waits for a pull, which may take long and concerns a part of the
// pod only (IN15). Otherwise it does nothing: the next SyncPod writes them. It does not block.
func (m *Manager) Refresh(uid types.UID) { m.refreshes.tell(uid) }

// refreshes are the pods that wait for a pull and hear of changes meanwhile.
type refreshes struct {
	mu      sync.Mutex
	hearers map[types.UID]chan struct{}
}

// hear returns where changes of the pod are told until done. A pod has one SyncPod at a time.
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

// tell tells the pod of a change, if it hears.
func (r *refreshes) tell(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case r.hearers[uid] <- struct{}{}: // a nil channel takes nothing
	default: // it does not wait, or has been told
	}
}
