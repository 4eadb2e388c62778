package podsync

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/runtime"
)

// heldRetry is how long a pod waits at the gate before it looks again, because the signal may be lost.
const heldRetry = time.Minute

// held are the pods that wait for the gate.
type held struct {
	mu   sync.Mutex
	pods map[types.UID]atGate
}

// atGate is a pod that waits for the gate.
type atGate struct {
	namespace, name string
	since           time.Time
}

// add notes that a pod waits. A pod that already waits keeps the time when it began.
func (h *held) add(pod *v1.Pod, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.pods[pod.UID]; known {
		return
	}
	if h.pods == nil {
		h.pods = map[types.UID]atGate{}
	}
	h.pods[pod.UID] = atGate{pod.Namespace, pod.Name, now}
}

func (h *held) remove(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.pods, uid)
}

// all returns the waiting pods. The caller owns the map.
func (h *held) all() map[types.UID]atGate {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.pods)
}

// take forgets the pods and returns them, sorted.
func (h *held) take() []types.UID {
	h.mu.Lock()
	defer h.mu.Unlock()
	uids := slices.Sorted(maps.Keys(h.pods))
	h.pods = nil
	return uids
}

// GateChanged says that [Options.Gate] may have opened: if it has, the pods that wait for it are
// woken ([Options.Wake]). Without this call they look again every minute. It does not block.
func (s *Syncer) GateChanged() {
	if s.o.Gate() != nil {
		return
	}
	for _, uid := range s.held.take() {
		s.o.Wake(uid)
	}
}

// Problems returns the pods that have waited for the gate for too long (IN2, IN13).
func (s *Syncer) Problems() []problem.Problem {
	err := s.o.Gate()
	if err == nil {
		return nil
	}
	var out []problem.Problem
	now := s.o.Clock.Now()
	for uid, w := range s.held.all() {
		if now.Sub(w.since) >= problem.GateLimit {
			out = append(out, problem.AtGate(w.namespace, w.name, uid, w.since, err))
		}
	}
	return out
}

// hold returns an error if nothing of the pod runs and the gate is closed (IN13).
func (s *Syncer) hold(pod *v1.Pod, view *runtime.PodStatus) error {
	if view.Running() || s.o.Gate() == nil {
		s.held.remove(pod.UID)
		return nil
	}
	s.held.add(pod, s.o.Clock.Now())
	err := s.o.Gate() // it may have opened before the pod was noted
	if err == nil {
		s.held.remove(pod.UID)
		return nil
	}
	return retryError{error: fmt.Errorf("%w: %w", errHeld, err), at: s.o.Clock.Now().Add(heldRetry)}
}
