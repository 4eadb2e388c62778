package podsync

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// heldRetry is how long a pod that waits for the gate waits for a signal that may be lost.
const heldRetry = time.Minute

// held are the pods that wait for the gate.
type held struct {
	mu   sync.Mutex
	pods map[types.UID]bool
}

func (h *held) set(uid types.UID, waits bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !waits {
		delete(h.pods, uid)
		return
	}
	if h.pods == nil {
		h.pods = map[types.UID]bool{}
	}
	h.pods[uid] = true
}

// take forgets the pods and returns them, sorted.
func (h *held) take() []types.UID {
	h.mu.Lock()
	defer h.mu.Unlock()
	uids := slices.Sorted(maps.Keys(h.pods))
	h.pods = nil
	return uids
}

// GateChanged says that [Options.Gate] may have opened: the pods that wait for it are woken
// ([Options.Wake]). Without it they look again every minute. It does not block.
func (s *Syncer) GateChanged() {
	if s.o.Gate() != nil {
		return
	}
	for _, uid := range s.held.take() {
		s.o.Wake(uid)
	}
}

// hold returns an error if nothing of the pod runs and the gate is closed (IN13).
func (s *Syncer) hold(pod *v1.Pod, view *runtime.PodStatus) error {
	if view.Running() || s.o.Gate() == nil {
		s.held.set(pod.UID, false)
		return nil
	}
	s.held.set(pod.UID, true)
	err := s.o.Gate() // it may have opened before the pod was noted
	if err == nil {
		s.held.set(pod.UID, false)
		return nil
	}
	return retryError{error: fmt.Errorf("%w: %w", errHeld, err), at: s.o.Clock.Now().Add(heldRetry)}
}
