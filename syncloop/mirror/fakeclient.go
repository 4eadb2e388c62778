package mirror

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// FakeClient is an in-memory API of pods: a [Client] for tests, and for programs that
// show mirror pods without an API server. The zero value is ready; all methods are
// safe for concurrent use.
type FakeClient struct {
	mu      sync.Mutex
	pods    map[types.NamespacedName]*v1.Pod
	made    int
	fail    error
	changed chan struct{}
}

var _ Client = (*FakeClient)(nil)

func keyOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// Create implements [Client].
func (m *FakeClient) Create(_ context.Context, pod *v1.Pod) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	if _, taken := m.pods[keyOf(pod)]; taken {
		return fmt.Errorf("%s: %w", keyOf(pod), ErrExists)
	}
	m.made++
	made := pod.DeepCopy()
	made.UID = types.UID(fmt.Sprintf("made-%d", m.made))
	m.put(made)
	return nil
}

// Get implements [Client].
func (m *FakeClient) Get(_ context.Context, namespace, name string) (*v1.Pod, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := types.NamespacedName{Namespace: namespace, Name: name}
	pod, ok := m.pods[key]
	if m.fail != nil || !ok {
		return nil, cmp.Or(m.fail, fmt.Errorf("%s: %w", key, ErrNotFound))
	}
	return pod, nil
}

// Delete implements [Client].
func (m *FakeClient) Delete(_ context.Context, namespace, name string, uid types.UID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := types.NamespacedName{Namespace: namespace, Name: name}
	pod, ok := m.pods[key]
	switch {
	case m.fail != nil:
		return m.fail
	case !ok:
		return fmt.Errorf("%s: %w", key, ErrNotFound)
	case uid != "" && pod.UID != uid:
		return fmt.Errorf("%s: %w", key, ErrPrecondition)
	}
	delete(m.pods, key)
	m.tell()
	return nil
}

// Put stores a pod as another client would, in place of one of the same name.
func (m *FakeClient) Put(pod *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(pod.DeepCopy())
}

// Fail makes all calls of the client fail with err, until it is called with nil.
func (m *FakeClient) Fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

// Pods returns all pods, sorted by namespace and name, and a channel that the next
// change closes. The pods are read-only.
func (m *FakeClient) Pods() ([]*v1.Pod, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]*v1.Pod, 0, len(m.pods))
	for _, pod := range m.pods {
		out = append(out, pod)
	}
	slices.SortFunc(out, func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	if m.changed == nil {
		m.changed = make(chan struct{})
	}
	return out, m.changed
}

func (m *FakeClient) put(pod *v1.Pod) {
	if m.pods == nil {
		m.pods = map[types.NamespacedName]*v1.Pod{}
	}
	m.pods[keyOf(pod)] = pod
	m.tell()
}

// tell wakes the readers of changes.
func (m *FakeClient) tell() {
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
}
