package syncloop

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Store holds the desired pods by UID and by full name, and the mirror pods
// beside them (section 7). It decides nothing. Make one with [NewStore]; all
// methods are safe for concurrent use. Pods are shared and read-only.
type Store struct{}

// NewStore returns an empty store.
func NewStore() *Store { return &Store{} }

// Set adds pod or replaces the one with its UID (PM2).
func (s *Store) Set(pod *v1.Pod) {}

// Remove forgets the pod with this UID. Its full name is freed only if it still
// belongs to that UID (PM8).
func (s *Store) Remove(uid types.UID) {}

// Get returns the pod with this UID, mirror pods excluded.
func (s *Store) Get(uid types.UID) (*v1.Pod, bool) { return nil, false }

// ByName returns the pod with this namespace and name, mirror pods excluded.
func (s *Store) ByName(namespace, name string) (*v1.Pod, bool) { return nil, false }

// Pods returns all pods, mirror pods excluded, sorted by UID (PM3).
func (s *Store) Pods() []*v1.Pod { return nil }

// Mirrors returns all mirror pods, sorted by UID.
func (s *Store) Mirrors() []*v1.Pod { return nil }

// MirrorOf returns the mirror pod of a pod, nil if it has none (PM5).
func (s *Store) MirrorOf(pod *v1.Pod) *v1.Pod { return nil }

// StaticOf returns the pod a mirror pod belongs to, nil if there is none (PM5).
func (s *Store) StaticOf(mirror *v1.Pod) *v1.Pod { return nil }
