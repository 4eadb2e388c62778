package podworkers

import "k8s.io/apimachinery/pkg/types"

// The predicates answer what other parts of an agent may do with a pod, and are
// the only authority on it (spec/podworkers.md 11). For one life of a UID their
// answers change only in one direction. For an unknown UID those that allow a
// removal say no until the first SyncKnownPods and yes from then on.

// IsPodKnown reports whether there is a worker for the pod. A pod that is forgotten is
// not known.
func (w *Workers) IsPodKnown(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machine.Known(uid)
}

// IsPodKnownTerminated reports whether the pod is known and none of its
// containers runs or will. A pod that is forgotten is not known.
func (w *Workers) IsPodKnownTerminated(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machine.KnownTerminated(uid)
}

// CouldHaveRunningContainers reports whether containers of the pod run or may
// yet be started. While it is true, volumes of the pod must stay.
func (w *Workers) CouldHaveRunningContainers(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machine.CouldHaveRunningContainers(uid)
}

// ShouldPodBeFinished reports whether the pod's terminated step is done: no
// resource of it should be left.
func (w *Workers) ShouldPodBeFinished(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machine.ShouldBeFinished(uid)
}

// IsPodTerminationRequested reports whether the pod is known and has to stop, or
// has stopped.
func (w *Workers) IsPodTerminationRequested(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machine.IsTerminationRequested(uid)
}

// ShouldPodContainersBeTerminating reports whether no container of the pod may be
// started any more: no SyncPod call will come, and none is in flight.
func (w *Workers) ShouldPodContainersBeTerminating(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machine.ContainersShouldBeTerminating(uid)
}

// ShouldPodRuntimeBeRemoved reports whether sandboxes and containers of the pod
// may be removed.
func (w *Workers) ShouldPodRuntimeBeRemoved(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machine.RuntimeShouldBeRemoved(uid)
}

// ShouldPodContentBeRemoved reports whether logs and dead containers may be
// removed: the pod is evicted (then at once), or deleted and terminated.
func (w *Workers) ShouldPodContentBeRemoved(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machine.ContentShouldBeRemoved(uid)
}

// IsPodForMirrorPodTerminatingByFullName reports whether the static pod that
// owns this full name, in the form name_namespace, is being terminated: its mirror
// pod must stay meanwhile.
func (w *Workers) IsPodForMirrorPodTerminatingByFullName(fullName string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machine.StaticNameTerminating(fullName)
}
