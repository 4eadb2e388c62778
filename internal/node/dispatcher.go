package node

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/syncloop"
)

// Dispatcher hands the loop's work to the workers.
type Dispatcher struct {
	Workers *podworkers.Workers
	// Complete completes the first update of a pod with what is remembered of it.
	Complete func(podworkers.UpdateOptions) []podworkers.UpdateOptions
	// Delivered reports whether the pod was handed over before.
	Delivered func(uid types.UID) bool
}

// Dispatch hands over one piece of work.
func (d Dispatcher) Dispatch(w syncloop.Work) {
	kinds := map[syncloop.WorkKind]podworkers.UpdateType{
		syncloop.WorkSync: podworkers.Sync, syncloop.WorkUpdate: podworkers.Update,
		syncloop.WorkCreate: podworkers.Create, syncloop.WorkKill: podworkers.Kill,
	}
	update := podworkers.UpdateOptions{Type: kinds[w.Kind], Pod: w.Pod, MirrorPod: w.MirrorPod, StartTime: w.StartTime}
	if w.Kind == syncloop.WorkCreate && !d.Delivered(w.Pod.UID) && d.Workers.IsPodTerminationRequested(w.Pod.UID) {
		update.Type = podworkers.Update // told to stop while it was held back; a Create would ask for another life (IN8)
	}
	for _, options := range d.Complete(update) {
		d.Workers.UpdatePod(options)
	}
}
