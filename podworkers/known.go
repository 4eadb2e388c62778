package podworkers

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers/internal/machine"
)

// SyncKnownPods compares the records with the complete list of desired pods
// (spec/podworkers.md 10). Housekeeping calls it, once every source has been
// heard, and never concurrently with code that adds pods. It
//
//   - forgets pods that are finished and not desired any more,
//   - forgets pods that are not desired and were never started,
//   - requests the termination of every other pod that is not desired.
//
// The result has every pod that is still known. A desired pod that is missing from it, or has
// Restart set because it has finished and is to live again, has to be given to UpdatePod with
// [Restart]. Until then the workers keep the finished life: whatever comes meanwhile finds
// it, and does not begin another one halfway (IN3).
func (w *Workers) SyncKnownPods(desired []*v1.Pod) map[types.UID]PodSync {
	known := make(map[types.UID]PodSync, len(desired))
	b := w.event(machine.EventSyncKnown)
	b.event.Desired = desired
	b.event.Known = func(uid types.UID, p PodSync) { known[uid] = p }
	w.apply(b, nil)
	return known
}

// Forget drops a pod that is finished, desired or not, so that its next life may begin with
// the next Create, and reports whether it did. The caller sees to it that no other update
// comes in between; [Restart] does both in one step.
func (w *Workers) Forget(uid types.UID) bool {
	b := w.event(machine.EventForget)
	b.event.UID = uid
	_, answer := w.apply(b, nil)
	return answer.Forgotten
}
