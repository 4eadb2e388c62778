package podworkers

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers/internal/machine"
)

// SyncKnownPods compares the records with the complete list of desired pods
// (spec/podworkers.md 10). Housekeeping calls it once every source has delivered,
// and never concurrently with code that adds pods. It
//
//   - forgets pods that are finished and no longer desired,
//   - forgets pods that are not desired and were never started,
//   - requests the termination of every other pod that is not desired.
//
// The result has every pod that is still known. A desired pod that is missing from it, or that
// has Restart set because it has finished and should live again, must be passed to UpdatePod with
// [Restart]. Until then the workers keep the finished life, so that other updates meanwhile find
// it and do not begin a new life halfway (IN3).
func (w *Workers) SyncKnownPods(desired []*v1.Pod) map[types.UID]PodSync {
	known := make(map[types.UID]PodSync, len(desired))
	b := w.event(machine.EventSyncKnown)
	b.event.Desired = desired
	b.event.Known = func(uid types.UID, p PodSync) { known[uid] = p }
	w.apply(b, nil)
	return known
}

// Forget drops a finished pod, desired or not, so that its next life may begin with the next
// Create, and reports whether it did. The caller must make sure that no other update comes in
// between; [Restart] does both in one step.
func (w *Workers) Forget(uid types.UID) bool {
	b := w.event(machine.EventForget)
	b.event.UID = uid
	_, answer := w.apply(b, nil)
	return answer.Forgotten
}
