package pods

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// Manager brings pods to their desired state at one runtime. See the package
// documentation for its concurrency contract.
type Manager struct {
	runtime runtime.RuntimeService
	images  runtime.ImageService
	options Options
	view    *runtime.View
}

// New returns a manager for one runtime. It makes no call. It fails with every
// problem of o joined.
func New(rt runtime.RuntimeService, images runtime.ImageService, o Options) (*Manager, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	m := &Manager{runtime: rt, images: images, options: o}
	m.view = runtime.NewView(rt, runtime.ViewOptions{OwnerID: o.OwnerID, Sequence: o.Sequence, Clock: o.Clock})
	return m, nil
}

// SyncPod compares the pod with what the runtime showed in status and does the
// next steps towards it, in the order of spec/runtime.md 7. A nil status means
// that the runtime shows nothing of the pod. pod and status are only read.
//
// It blocks for the runtime: pulls, hooks and stops included. It ends soon after
// ctx. It must not run twice at once for the same pod.
func (m *Manager) SyncPod(ctx context.Context, pod *v1.Pod, status *runtime.PodStatus) Result {
	return Result{}
}

// KillPod stops every container and every sandbox of a pod and returns nil once
// the runtime shows nothing running (spec/runtime.md 16). Nothing is removed.
//
// status is what the runtime showed; nil means that the manager looks itself.
// graceOverride, in seconds, wins over every grace period of the pod. A nil pod
// makes it an orphan kill from labels and annotations. It may be called again
// while an earlier call for the same pod still runs, with another grace.
func (m *Manager) KillPod(ctx context.Context, pod *v1.Pod, status *runtime.PodStatus, graceOverride *int64) error {
	return nil
}

// KillRuntimePod is KillPod for a pod of which only the runtime knows. Without an
// override it has a grace of 1 s (spec/runtime.md 16.7).
func (m *Manager) KillRuntimePod(ctx context.Context, pod *runtime.Pod, graceOverride *int64) error {
	return nil
}

// Forget drops what is remembered of a pod in memory: delays and start failures.
// Call it when the pod is gone. It does not block.
func (m *Manager) Forget(uid types.UID) {}

// WaitingReasons returns, per container name, why the latest attempt to start
// it failed; containers that started have no entry. The map is the caller's.
func (m *Manager) WaitingReasons(uid types.UID) map[string]Waiting { return nil }

// NeedsSandbox reports whether the pod needs a new sandbox, given what the
// runtime showed (spec/runtime.md 5). The condition PodReadyToStartContainers is
// true exactly if it does not. A nil status means that nothing exists.
func NeedsSandbox(pod *v1.Pod, status *runtime.PodStatus) bool { return status == nil }

// TerminationMessage returns what an exited container left as its message
// (spec/runtime.md 20), at most 4096 bytes, empty for a container in any other
// state. It reads files below the root and log directories only.
func (m *Manager) TerminationMessage(container *runtime.ContainerStatus) string { return "" }
