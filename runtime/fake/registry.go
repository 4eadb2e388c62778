package fake

import (
	"slices"
	"time"
)

// object is a sandbox or a container. What these methods return never changes.
type object interface {
	comparable
	objectID() string
	// labelledWith is the UID of the pod that its labels name, "" if they name none.
	labelledWith() string
	creation() time.Time
}

// registry holds objects of one kind. Engines ask for single objects and for those of one pod much more
// often than for all of them, so both are indexed. The runtime's lock guards it.
type registry[T object] struct {
	all   []T // in the order of creation
	byID  map[string]T
	ofPod map[string][]T // by labelledWith, in the order of creation
}

func newRegistry[T object]() registry[T] {
	return registry[T]{byID: map[string]T{}, ofPod: map[string][]T{}}
}

// add adds an object that was created after all others.
func (r *registry[T]) add(o T) {
	r.all = append(r.all, o)
	r.byID[o.objectID()] = o
	r.ofPod[o.labelledWith()] = append(r.ofPod[o.labelledWith()], o)
}

// remove removes an object.
func (r *registry[T]) remove(o T) {
	r.all = without(r.all, o)
	delete(r.byID, o.objectID())
	pod := o.labelledWith()
	if r.ofPod[pod] = without(r.ofPod[pod], o); len(r.ofPod[pod]) == 0 {
		delete(r.ofPod, pod)
	}
}

// without removes an object from a list in the order of creation.
func without[T object](list []T, o T) []T {
	i, _ := slices.BinarySearchFunc(list, o.creation(), func(other T, moment time.Time) int { return other.creation().Compare(moment) })
	if i < len(list) && list[i] == o {
		return slices.Delete(list, i, i+1)
	}
	return list
}

func (s *sandbox) objectID() string     { return s.id }
func (s *sandbox) labelledWith() string { return s.labelled }
func (s *sandbox) creation() time.Time  { return s.created }

func (c *container) objectID() string     { return c.id }
func (c *container) labelledWith() string { return c.labelled }
func (c *container) creation() time.Time  { return c.created }
