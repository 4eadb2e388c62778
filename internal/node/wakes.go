package node

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/podworkers"
)

// Wakes has the workers look at pods again, because something that a pod uses changed.
type Wakes struct {
	Residents *Residents
	// Update hands an update to the workers.
	Update func(podworkers.UpdateOptions)
	Clock  clock.PassiveClock
}

// Wake asks for a sync of a desired pod. A step that is under way is not disturbed: the worker
// finds the request when the step ends.
func (w *Wakes) Wake(uid types.UID) {
	// A pod without a worker is begun by the loop or by housekeeping, never by a wake.
	if pod, ok := w.Residents.Desired.Get(uid); ok && w.Residents.Lives.IsPodKnown(uid) {
		w.Update(podworkers.UpdateOptions{Type: podworkers.Sync, Pod: pod, StartTime: w.Clock.Now()})
	}
}

// WakeAll asks for a sync of several pods.
func (w *Wakes) WakeAll(uids ...types.UID) {
	for _, uid := range uids {
		w.Wake(uid)
	}
}

// ObjectChanged wakes the pods that refer to an object.
func (w *Wakes) ObjectChanged(o podinfo.Object) {
	for _, pod := range w.Residents.Desired.Pods() {
		if podinfo.Refers(pod, o) {
			w.Wake(pod.UID)
		}
	}
}
