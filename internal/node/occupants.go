package node

import (
	"iter"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
)

// Occupants says which pods have a place on the node, for admission and preemption. Every field
// must be set before a pod is judged.
type Occupants struct {
	Residents *Residents
	// Refused reports whether the pod was refused, Verdict whether a verdict is known.
	Refused func(uid types.UID) bool
	Verdict func(pod *v1.Pod) (known bool, err error)
	// Terminated reports whether no container of the pod runs or will run.
	Terminated func(uid types.UID) bool
	// Withheld reports whether the pod was refused or waits for its verdict, Held whether
	// it waits for the gate.
	Withheld, Held func(uid types.UID) bool
	// Began reports whether containers of the pod were started, by this agent or an earlier one, and they are
	// not known to have stopped.
	Began func(uid types.UID) bool
	// Granted returns the pod with the resources that it was granted.
	Granted func(pod *v1.Pod) *v1.Pod
}

// Ending reports whether the pod's end was requested or is already over, other than by refusal.
func (o *Occupants) Ending(pod *v1.Pod) bool {
	if o.Refused(pod.UID) {
		return false
	}
	return o.ended(pod.UID) || o.Residents.Lives.IsPodTerminationRequested(pod.UID)
}

func (o *Occupants) ended(uid types.UID) bool {
	s, _ := o.Residents.Statuses.Get(uid)
	return podinfo.Terminal(s.Phase)
}

// Active returns the pod with what it was granted, and whether it has a place on the node (AD4): a
// pod that has ended keeps its place while its containers stop.
func (o *Occupants) Active(pod *v1.Pod) (*v1.Pod, bool) {
	if o.Terminated(pod.UID) {
		return nil, false
	}
	if (podinfo.Terminal(pod.Status.Phase) || o.ended(pod.UID)) && !o.stops(pod.UID) {
		return nil, false
	}
	return o.Granted(pod), true
}

// stops reports whether containers of a pod that has ended may run: they are being stopped, or the pod has no
// worker yet that continues to stop them after a restart of the agent.
func (o *Occupants) stops(uid types.UID) bool {
	return o.Residents.Lives.IsPodTerminationRequested(uid) || !o.Residents.Known(uid) && o.Began(uid)
}

// Others yields the active pods except one, for soft handlers.
func (o *Occupants) Others(except types.UID) iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) {
		for _, pod := range o.Residents.Desired.Pods() {
			if pod.UID == except {
				continue
			}
			if granted, ok := o.Place(pod); ok && !yield(granted) {
				return
			}
		}
	}
}

// Place returns the pod with what it was granted, unless it is not active or has no
// verdict yet.
func (o *Occupants) Place(pod *v1.Pod) (*v1.Pod, bool) {
	if o.Withheld(pod.UID) {
		return nil, false
	}
	return o.Active(pod)
}

// Judged reports whether the pod has a verdict, or is ending.
func (o *Occupants) Judged(pod *v1.Pod) bool {
	known, err := o.Verdict(pod)
	return known || err != nil || podinfo.ShowsEnd(pod) || o.Ending(pod)
}

// Kept reports a pod that has no worker because the loop keeps it back: it was refused, or waits
// for its verdict or for the gate. A restart, which is a second Create, would ask for a second life
// (U5).
func (o *Occupants) Kept(uid types.UID) bool { return o.Withheld(uid) || o.Held(uid) }
