package syncloop

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
)

// Store holds the desired pods by UID and by full name, and the mirror pods
// beside them (section 7). It decides nothing. All methods are safe for concurrent use.
// Pods are shared and read-only.
type Store struct {
	mu      sync.RWMutex
	pods    index
	mirrors index
}

// index finds pods by UID and by full name.
type index struct {
	byUID  map[types.UID]*v1.Pod
	byName map[podName]*v1.Pod
}

func newIndex() index {
	return index{byUID: map[types.UID]*v1.Pod{}, byName: map[podName]*v1.Pod{}}
}

func (x index) set(pod *v1.Pod) {
	x.byUID[pod.UID] = pod
	x.byName[nameOf(pod)] = pod
}

func (x index) remove(uid types.UID) {
	pod, ok := x.byUID[uid]
	if !ok {
		return
	}
	delete(x.byUID, uid)
	if named := x.byName[nameOf(pod)]; named != nil && named.UID == uid {
		delete(x.byName, nameOf(pod)) // PM8: a newer pod keeps its name
	}
}

func (x index) sorted() []*v1.Pod {
	pods := make([]*v1.Pod, 0, len(x.byUID))
	for _, p := range x.byUID {
		pods = append(pods, p)
	}
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return pods
}

// newStore returns an empty store.
func newStore() *Store { return &Store{pods: newIndex(), mirrors: newIndex()} }

// set adds pod or replaces the one with its UID (PM2). A pod of the same full
// name and another UID stays known by its UID; the name now finds the new pod.
func (s *Store) set(pod *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if podinfo.Mirror(pod) {
		s.mirrors.set(pod)
	} else {
		s.pods.set(pod)
	}
}

// remove forgets the pod or mirror pod with this UID. Its full name is freed only
// if it still belongs to that UID (PM8).
func (s *Store) remove(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods.remove(uid)
	s.mirrors.remove(uid)
}

// Get returns the pod with this UID, mirror pods excluded.
func (s *Store) Get(uid types.UID) (*v1.Pod, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	pod, ok := s.pods.byUID[uid]
	return pod, ok
}

// Pods returns all pods, mirror pods excluded, sorted by UID (PM3).
func (s *Store) Pods() []*v1.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.pods.sorted()
}

// each calls f with every pod, mirror pods excluded, in no order, until it returns
// false. No lock is held meanwhile.
func (s *Store) each(f func(*v1.Pod) bool) {
	s.mu.RLock()
	pods := slices.AppendSeq(make([]*v1.Pod, 0, len(s.pods.byUID)), maps.Values(s.pods.byUID))
	s.mu.RUnlock()
	for _, pod := range pods {
		if !f(pod) {
			return
		}
	}
}

// Mirrors returns all mirror pods, sorted by UID.
func (s *Store) Mirrors() []*v1.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mirrors.sorted()
}

// MirrorOf returns the mirror pod of a pod, nil if it has none (PM5). The link is
// the full name, so either may arrive first (PM2).
func (s *Store) MirrorOf(pod *v1.Pod) *v1.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mirrors.byName[nameOf(pod)]
}

// OrphanedMirrors returns the mirror pods whose full name no pod has, sorted by UID
// (PM4).
func (s *Store) OrphanedMirrors() []*v1.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.DeleteFunc(s.mirrors.sorted(), func(m *v1.Pod) bool { return s.pods.byName[nameOf(m)] != nil })
}

// TranslateUID returns the UID of the static pod that a mirror pod stands for, any
// other UID unchanged (PM6).
func (s *Store) TranslateUID(uid types.UID) types.UID {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if m := s.mirrors.byUID[uid]; m != nil {
		if static := s.pods.byName[nameOf(m)]; static != nil {
			return static.UID
		}
	}
	return uid
}

// staticOf returns the pod a mirror pod belongs to, nil if there is none (PM5).
func (s *Store) staticOf(mirror *v1.Pod) *v1.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.pods.byName[nameOf(mirror)]
}
