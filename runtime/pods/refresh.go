package pods

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/timing"
)

// Refresh makes a SyncPod of the pod that waits for a pull, a stop, a hook or a volume write the
// volumes of config maps, secrets, tokens and the pod's fields again: this may take long, and
// concerns only a part of the pod (IN15). Otherwise it does nothing: the next SyncPod writes them, whatever else it has
// to do. It does not block.
func (m *Manager) Refresh(uid types.UID) { m.refreshes.tell(uid) }

// freshEvery is how often a step that waits renews files without being told: tokens end.
const freshEvery = time.Minute

// keepFresh renews the files of the pod's containers, every minute and when the pod is told of a change, until done is called: the
// step waits for something that may take long, and writes no such files meanwhile.
func (s *podSync) keepFresh(ctx context.Context) (done func()) {
	volumes := s.m.ownFiles(s.pod) // a volume manager is not called concurrently for one pod
	if len(volumes) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() {
		timer := s.m.options.Clock.NewTimer(freshEvery)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-s.changes:
			case <-timer.C():
				timing.Restart(timer, freshEvery)
			}
			s.m.refresh(ctx, s.pod, volumes)
			if ctx.Err() != nil {
				s.m.refreshes.tell(s.pod.UID) // for what the step waits for next
			}
		}
	})
	return func() { cancel(); work.Wait() }
}

// refreshes are the pods that wait for something and are told of changes meanwhile.
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
