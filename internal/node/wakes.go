package node

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/podworkers"
)

// Wakes makes the workers look at pods again because something that a pod uses changed.
type Wakes struct {
	Residents *Residents
	// Update hands an update to the workers.
	Update func(podworkers.UpdateOptions)
	// Refresh makes the volumes of a pod be rewritten during a step that may take long.
	Refresh func(uid types.UID)
	Clock   clock.PassiveClock
}

// Wake asks for a sync of a desired pod. A step in progress is not disturbed: the worker finds the
// request when the step ends.
func (w *Wakes) Wake(uid types.UID) {
	// A pod without a worker is started by the loop or by housekeeping, never by a wake.
	if pod, ok := w.Residents.Desired.Get(uid); ok && w.Residents.Lives.IsPodKnown(uid) {
		w.Update(podworkers.UpdateOptions{Type: podworkers.Sync, Pod: pod, StartTime: w.Clock.Now()})
	}
}

// Changed asks for a sync of pods because something that their volumes show has changed.
func (w *Wakes) Changed(uids ...types.UID) {
	for _, uid := range uids {
		w.Wake(uid)
		w.Refresh(uid)
	}
}

// ObjectChanged wakes the pods that refer to an object.
func (w *Wakes) ObjectChanged(o podinfo.Object) {
	for _, pod := range w.Residents.Desired.Pods() {
		if podinfo.Refers(pod, o) {
			w.Changed(pod.UID)
		}
	}
}
