package podworkers

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Workers holds the record of every pod. All methods are safe for concurrent
// use, and none but Run, Stop and KillPod waits for anything.
type Workers struct {
	syncer  PodSyncer
	options Options
}

// New returns workers that call syncer. Nothing happens before Run: updates
// are taken and wait.
func New(syncer PodSyncer, options Options) *Workers {
	return &Workers{syncer: syncer, options: options}
}

// Run makes the calls until ctx ends, then stops as [Detach] does, and returns
// when every call has ended. It can be called once; again is [ErrRunning].
func (w *Workers) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// StopMode says what Stop does with the pods.
type StopMode uint8

// Stop modes.
const (
	// Detach leaves the pods as they are: setup calls are cancelled, terminating
	// and terminated calls may finish up to the drain limit.
	Detach StopMode = iota
	// Terminate terminates every pod and waits until all are finished.
	Terminate
	// Now cancels every call.
	Now
)

// Stop ends the workers and waits until Run's calls have all ended.
func (w *Workers) Stop(ctx context.Context, mode StopMode) error { return nil }

// UpdatePod takes an update of a pod.
func (w *Workers) UpdatePod(update UpdateOptions) Outcome { return Queued }

// KillPod terminates a pod and waits until its containers have stopped.
func (w *Workers) KillPod(ctx context.Context, pod *v1.Pod, kill KillOptions) (KillResult, error) {
	return KillResult{}, nil
}

// SyncKnownPods compares the records with the desired pods.
func (w *Workers) SyncKnownPods(desired []*v1.Pod) map[types.UID]PodSync { return nil }

// PodSync is the state of a pod after SyncKnownPods.
type PodSync struct {
	State State
	// Orphan: not in the desired list.
	Orphan bool
	// HasConfig: a full pod is known, not only a runtime pod.
	HasConfig bool
	// Static: the pod does not come from the API.
	Static bool
}

// State is the kind of work a pod needs next.
type State uint8

// States.
const (
	// StateSync: setup.
	StateSync State = iota
	// StateTerminating: the containers have to stop.
	StateTerminating
	// StateTerminated: they have stopped.
	StateTerminated
)

// IsPodKnownTerminated reports whether the pod is known and no container of it runs or will.
func (w *Workers) IsPodKnownTerminated(uid types.UID) bool { return false }

// CouldHaveRunningContainers reports whether containers of the pod may be running.
func (w *Workers) CouldHaveRunningContainers(uid types.UID) bool { return false }

// ShouldPodBeFinished reports whether everything held for the pod should be released.
func (w *Workers) ShouldPodBeFinished(uid types.UID) bool { return false }

// IsPodTerminationRequested reports whether the pod is known and has to stop or has stopped.
func (w *Workers) IsPodTerminationRequested(uid types.UID) bool { return false }

// ShouldPodContainersBeTerminating reports whether no container may be started any more.
func (w *Workers) ShouldPodContainersBeTerminating(uid types.UID) bool { return false }

// ShouldPodRuntimeBeRemoved reports whether sandboxes and containers may be removed.
func (w *Workers) ShouldPodRuntimeBeRemoved(uid types.UID) bool { return false }

// ShouldPodContentBeRemoved reports whether logs and dead containers may be removed.
func (w *Workers) ShouldPodContentBeRemoved(uid types.UID) bool { return false }

// IsPodForMirrorPodTerminatingByFullName reports whether the static pod that
// owns this full name (name_namespace) is terminating.
func (w *Workers) IsPodForMirrorPodTerminatingByFullName(fullName string) bool { return false }
