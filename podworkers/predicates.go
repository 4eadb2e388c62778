package podworkers

import "k8s.io/apimachinery/pkg/types"

// The predicates say what other parts of an agent may do with a pod, and are the
// only authority on that (spec/podworkers.md 11). Within one life of a UID their
// answers change only in one direction. For an unknown UID, predicates that allow a
// removal return false until the first SyncKnownPods and true from then on.

// IsPodKnown reports whether there is a worker for the pod. A forgotten pod is not
// known.
func (w *Workers) IsPodKnown(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machine.Known(uid)
}

// IsPodKnownTerminated reports whether the pod is known and none of its
// containers runs or will run. A forgotten pod is not known.
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

// ShouldPodRuntimeBeRemoved reports whether sandboxes and containers of the pod
// may be removed.
func (w *Workers) ShouldPodRuntimeBeRemoved(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machine.RuntimeShouldBeRemoved(uid)
}

// ShouldPodContentBeRemoved reports whether logs and dead containers may be
// removed: the pod was evicted (then at once), or it is deleted and terminated.
func (w *Workers) ShouldPodContentBeRemoved(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machine.ContentShouldBeRemoved(uid)
}

// IsPodForMirrorPodTerminatingByFullName reports whether the static pod that
// owns this full name, in the form name_namespace, is being terminated: its mirror
// pod must stay until that is done.
func (w *Workers) IsPodForMirrorPodTerminatingByFullName(fullName string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machine.StaticNameTerminating(fullName)
}
