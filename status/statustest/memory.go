package statustest

import (
	"context"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/status"
)

// Memory is a sink in front of an API held in memory: pods by namespace and name that others can
// edit, with every ability a sink may have. The zero value is an API without pods. It is safe for
// concurrent use.
type Memory struct {
	// Fault, if not nil, is called before each call ("Store", "ReadPod", "DeletePod") and may block
	// or fail it. Set it before the first call.
	Fault func(ctx context.Context, call string, ref status.PodRef) error

	mu      sync.Mutex
	pods    map[types.NamespacedName]*v1.Pod
	stored  map[types.UID][]v1.PodStatus
	deleted []types.UID
}

// SetPod makes a pod exist, replacing one of the same namespace and name.
func (m *Memory) SetPod(pod *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pods == nil {
		m.pods = map[types.NamespacedName]*v1.Pod{}
		m.stored = map[types.UID][]v1.PodStatus{}
	}
	m.pods[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = pod.DeepCopy()
}

// Pod returns a copy of a pod, or nil.
func (m *Memory) Pod(namespace, name string) *v1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pods[types.NamespacedName{Namespace: namespace, Name: name}].DeepCopy()
}

// Statuses returns every status stored for a UID, oldest first.
func (m *Memory) Statuses(uid types.UID) []v1.PodStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.stored[uid])
}

// Deleted returns the UIDs of the pods that were deleted, in order.
func (m *Memory) Deleted() []types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.deleted)
}

// Store implements [status.StatusSink].
func (m *Memory) Store(ctx context.Context, u status.Update) (status.StoreResult, error) {
	if err := m.fault(ctx, "Store", u.PodRef); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := types.NamespacedName{Namespace: u.Namespace, Name: u.Name}
	pod := m.pods[key]
	switch {
	case pod == nil:
		return status.Gone, nil
	case pod.UID != u.UID:
		return status.Recreated, nil
	}
	pod = pod.DeepCopy() // a pod handed out by ReadPod must not change
	u.Status.DeepCopyInto(&pod.Status)
	m.pods[key] = pod
	m.stored[u.UID] = append(m.stored[u.UID], *u.Status.DeepCopy())
	return status.Stored, nil
}

// ReadPod implements [status.PodReader].
func (m *Memory) ReadPod(ctx context.Context, ref status.PodRef) (*v1.Pod, error) {
	if err := m.fault(ctx, "ReadPod", ref); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pods[types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}], nil
}

// DeletePod implements [status.PodDeleter].
func (m *Memory) DeletePod(ctx context.Context, ref status.PodRef) error {
	if err := m.fault(ctx, "DeletePod", ref); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	if pod := m.pods[key]; pod != nil && pod.UID == ref.UID {
		delete(m.pods, key)
		m.deleted = append(m.deleted, ref.UID)
	}
	return nil
}

func (m *Memory) fault(ctx context.Context, call string, ref status.PodRef) error {
	if m.Fault == nil {
		return nil
	}
	return m.Fault(ctx, call, ref)
}
