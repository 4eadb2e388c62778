package podsync

import (
	"maps"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/podworkers"
)

// Stopping returns the pods that are being stopped and had not finished by themselves,
// each with a deletionTimestamp. They may no longer be desired. The caller owns the map; the
// pods are shared.
func (s *Syncer) Stopping() map[types.UID]*v1.Pod { return s.stopping.all() }

// StoppingPod returns one pod of [Syncer.Stopping], and whether it is among them.
func (s *Syncer) StoppingPod(uid types.UID) (*v1.Pod, bool) { return s.stopping.get(uid) }

// stopping is what a syncer remembers about pods whose end has begun.
type stopping struct {
	clock clock.PassiveClock

	mu   sync.Mutex
	pods map[types.UID]*v1.Pod
	// final are the pods whose status is final and that still hold something.
	final map[types.UID]bool
	// amends are the ends imposed on pods that no accepted status has reported yet.
	amends map[types.UID]podworkers.PodStatusFunc
}

func newStopping(c clock.PassiveClock) *stopping {
	return &stopping{clock: c, pods: map[types.UID]*v1.Pod{}, final: map[types.UID]bool{}, amends: map[types.UID]podworkers.PodStatusFunc{}}
}

// add remembers a pod as it is when its end begins.
func (s *stopping) add(pod *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.pods[pod.UID]; ok {
		return
	}
	p := *pod
	if p.DeletionTimestamp == nil {
		now := metav1.NewTime(s.clock.Now())
		p.DeletionTimestamp = &now
	}
	s.pods[pod.UID] = &p
}

// remove forgets a pod.
func (s *stopping) remove(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, uid)
	delete(s.final, uid)
	delete(s.amends, uid)
}

// untold returns what must amend the next status of a pod because the last one was dropped,
// nil if there is nothing.
func (s *stopping) untold(uid types.UID) podworkers.PodStatusFunc {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.amends[uid]
}

// setUntold notes whether what amends a pod's status still has to be reported.
func (s *stopping) setUntold(uid types.UID, amend podworkers.PodStatusFunc, untold bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if untold && amend != nil {
		s.amends[uid] = amend
	} else {
		delete(s.amends, uid)
	}
}

func (s *stopping) setFinal(uid types.UID, final bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if final {
		s.final[uid] = true
	} else {
		delete(s.final, uid)
	}
}

func (s *stopping) isFinal(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.final[uid]
}

func (s *stopping) all() map[types.UID]*v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.pods)
}

func (s *stopping) get(uid types.UID) (*v1.Pod, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod, ok := s.pods[uid]
	return pod, ok
}
