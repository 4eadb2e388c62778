package podworkers

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers/internal/machine"
)

// State is the kind of work a pod needs next.
type State uint8

// States.
const (
	// StateSync: the pod is to be set up or kept running.
	StateSync State = iota
	// StateTerminating: its containers have to stop.
	StateTerminating
	// StateTerminated: they have stopped; the pod may be finished.
	StateTerminated
)

// String returns sync, terminating or terminated, as the kubelet's metrics do.
func (s State) String() string {
	switch s {
	case StateSync:
		return "sync"
	case StateTerminating:
		return "terminating"
	default:
		return "terminated"
	}
}

// PodSync is the state of a pod after SyncKnownPods.
type PodSync struct {
	State State
	// Orphan: the pod is not in the desired list.
	Orphan bool
	// HasConfig: the full pod is known, not only what the runtime shows of it.
	HasConfig bool
	// Static: the pod comes from a source other than the API.
	Static bool
}

// SyncKnownPods compares the records with the complete list of desired pods
// (spec/podworkers.md 10). Housekeeping calls it, once every source has been
// heard, and never concurrently with code that adds pods. It
//
//   - forgets pods that are finished and not desired any more, or desired anew,
//   - forgets pods that are not desired and were never started,
//   - requests the termination of every other pod that is not desired.
//
// The result has every pod that is still known. A desired pod that is missing
// from it has to be given to UpdatePod again, with [Create].
func (w *Workers) SyncKnownPods(desired []*v1.Pod) map[types.UID]PodSync {
	known := make(map[types.UID]PodSync, len(desired))
	b := w.event(machine.EventSyncKnown)
	b.event.Desired = desired
	b.event.Known = func(uid types.UID, k machine.Known) {
		p := PodSync{State: StateTerminating, Orphan: k.Orphan, HasConfig: k.HasConfig, Static: k.Static}
		switch k.Phase {
		case machine.Setup:
			p.State = StateSync
		case machine.Terminated:
			p.State = StateTerminated
		}
		known[uid] = p
	}
	w.apply(b, nil)
	return known
}
