package podsource

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// store holds the pods as the API server last showed them. Only the reflector writes to it.
type store struct {
	revision *revision
	health   *health
	// changed has one slot, which is filled when the set has changed.
	changed chan struct{}

	mu sync.Mutex
	// complete says that a list was read to its end since the start (KS1).
	complete bool
	pods     map[types.NamespacedName]*v1.Pod
	byUID    map[types.UID]*v1.Pod
}

var (
	_ cache.ReflectorStore         = (*store)(nil)
	_ cache.ResourceVersionUpdater = (*store)(nil)
)

func newStore(r *revision, h *health) *store {
	return &store{
		revision: r, health: h, changed: make(chan struct{}, 1),
		pods: map[types.NamespacedName]*v1.Pod{}, byUID: map[types.UID]*v1.Pod{},
	}
}

// forgetSync makes the next set wait for a complete list.
func (s *store) forgetSync() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.complete = false
}

// list returns the pods by namespace and name, and whether the set is complete.
func (s *store) list() (pods []*v1.Pod, complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pods = make([]*v1.Pod, 0, len(s.pods))
	for _, pod := range s.pods {
		pods = append(pods, pod)
	}
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return pods, s.complete
}

func (s *store) lookup(uid types.UID) *v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byUID[uid]
}

// Add implements [cache.ReflectorStore].
func (s *store) Add(object any) error { return s.put(object) }

// Update implements [cache.ReflectorStore].
func (s *store) Update(object any) error { return s.put(object) }

func (s *store) put(object any) error {
	pod, err := podOf(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.remove(keyOf(pod))
	s.insert(pod)
	s.mu.Unlock()
	s.signal()
	return nil
}

// Delete implements [cache.ReflectorStore].
func (s *store) Delete(object any) error {
	pod, err := podOf(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.remove(keyOf(pod))
	s.mu.Unlock()
	s.signal()
	return nil
}

// Replace implements [cache.ReflectorStore]. It receives complete lists. One that is older than
// what was known is refused, and the reflector lists again.
func (s *store) Replace(objects []any, revision string) error {
	pods := make([]*v1.Pod, 0, len(objects))
	for _, object := range objects {
		pod, err := podOf(object)
		if err != nil {
			s.health.refused(err)
			return err
		}
		pods = append(pods, pod)
	}
	if err := s.revision.accept(revision); err != nil {
		s.health.refused(err)
		return err
	}
	s.mu.Lock()
	clear(s.pods)
	clear(s.byUID)
	for _, pod := range pods {
		s.insert(pod)
	}
	s.complete = true
	s.mu.Unlock()
	s.health.succeeded()
	s.signal()
	return nil
}

// Resync implements [cache.ReflectorStore]; the set is always delivered as a whole.
func (s *store) Resync() error { return nil }

// UpdateResourceVersion implements [cache.ResourceVersionUpdater]: the reflector calls it
// after every event and bookmark.
func (s *store) UpdateResourceVersion(revision string) {
	s.revision.reached(revision)
	s.health.succeeded()
}

func (s *store) insert(pod *v1.Pod) {
	s.pods[keyOf(pod)], s.byUID[pod.UID] = pod, pod
}

func (s *store) remove(key types.NamespacedName) {
	if had := s.pods[key]; had != nil {
		delete(s.byUID, had.UID)
		delete(s.pods, key)
	}
}

func (s *store) signal() {
	select {
	case s.changed <- struct{}{}:
	default: // already signaled
	}
}

// podOf returns the pod without managed fields and the like, which only writers at the API server
// need and which are often the larger part of it.
func podOf(object any) (*v1.Pod, error) {
	pod, ok := object.(*v1.Pod)
	if !ok {
		return nil, fmt.Errorf("the API server sent a %T instead of a pod", object)
	}
	pod.ManagedFields = nil
	return pod, nil
}

func keyOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
