package node

import (
	"cmp"
	"errors"
	"iter"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/rule"
	"github.com/podwright/podwright/syncloop"
)

// Desired are the pods that sources want; [syncloop.Store] has them.
type Desired interface {
	Pods() []*v1.Pod
	Get(uid types.UID) (*v1.Pod, bool)
}

// Statuses has the newest status of each pod; [status.Manager] does.
type Statuses interface {
	Get(uid types.UID) (v1.PodStatus, bool)
}

// Lives says how far the life of a pod has got; [podworkers.Workers] does.
type Lives interface {
	IsPodKnown(uid types.UID) bool
	IsPodTerminationRequested(uid types.UID) bool
	ShouldPodBeFinished(uid types.UID) bool
}

// Residents are the pods that concern the node: those that are desired, and those that are being
// stopped because they no longer are. Every field must be set before a method is called.
type Residents struct {
	Desired  Desired
	Statuses Statuses
	Lives    Lives
	// Stopping returns the pods that are being stopped, with a deletionTimestamp.
	Stopping func() map[types.UID]*v1.Pod
	// Ending returns the pods that had to stop when the previous agent ended, and that may still
	// hold something.
	Ending func() []*v1.Pod
	// Holding returns the pods that were admitted, by this agent or the previous one, and whose
	// containers are not known to have stopped.
	Holding func() []*v1.Pod
	// Heard reports whether every source has named its pods. MaybeWanted protects a pod that a source
	// may still want but could not name.
	Heard       func() bool
	MaybeWanted func(uid types.UID) rule.Denial
	// Open returns what the verdict of a pod waits for, false if the pod has one. Nil: all have one.
	Open func(uid types.UID) (syncloop.OpenVerdict, bool)
	// Queue returns the pods that wait for their verdict, in the order of their arrival.
	Queue func() []syncloop.OpenVerdict
	// Allocated returns the pod with the resources it was allocated. Nil: with those that it asks for.
	Allocated func(pod *v1.Pod) *v1.Pod
}

// All returns every pod. A pod that is being stopped is returned as its worker has it.
func (r *Residents) All() map[types.UID]*v1.Pod {
	all := r.Stopping()
	for _, p := range r.Desired.Pods() {
		if _, stopping := all[p.UID]; !stopping {
			all[p.UID] = p
		}
	}
	return all
}

// Everywhere returns every pod that may use something of the node, such as an image: as it is desired, as its
// worker has it while it is being stopped, and as it was when the previous agent ended. A pod may be
// there more than once.
func (r *Residents) Everywhere() []*v1.Pod {
	return slices.Concat(r.Desired.Pods(), slices.Collect(maps.Values(r.Stopping())), r.Ending())
}

// Get returns the pod with this UID as it is desired, otherwise as it is being stopped, or nil.
func (r *Residents) Get(uid types.UID) *v1.Pod {
	if pod, desired := r.Desired.Get(uid); desired {
		return pod
	}
	return r.Stopping()[uid]
}

// Active returns the pods that have resources of this node, or a claim to some: those that have not ended,
// except pods that wait for their verdict and leave others the room meanwhile (IN6).
func (r *Residents) Active() []*v1.Pod {
	all := r.All()
	out := make([]*v1.Pod, 0, len(all))
	for uid, p := range all {
		if s, ok := r.Statuses.Get(uid); ok && podinfo.Terminal(s.Phase) || r.waitsWithoutClaim(uid) {
			continue
		}
		out = append(out, p)
	}
	return out
}

// waitsWithoutClaim reports whether a pod has no verdict, and has waited for so long, or for such a reason, that other
// pods leave it no room.
func (r *Residents) waitsWithoutClaim(uid types.UID) bool {
	if r.Open == nil {
		return false
	}
	open, waits := r.Open(uid)
	return waits && (open.Overdue || yields(open.Err))
}

// yields reports whether a pod waits for something other than room on the node.
func yields(err error) bool {
	var waits interface{ Yields() bool }
	return errors.As(err, &waits) && waits.Yields()
}

// Ahead yields the pods that came before a pod and wait for their verdict, with what they wait for. They came before
// every pod that does not wait. Those that have waited too long are left out: they keep no other pod waiting (IN6).
func (r *Residents) Ahead(uid types.UID) iter.Seq2[*v1.Pod, error] {
	return func(yield func(*v1.Pod, error) bool) {
		for _, open := range r.Queue() {
			if open.UID == uid {
				return
			}
			if pod, desired := r.Desired.Get(open.UID); desired && !open.Overdue && !yield(pod, open.Err) {
				return
			}
		}
	}
}

// Evictable returns the pods that are running or about to run, each with its newest status and the resources it
// was allocated: a pod must not be spared for a resize that waits or was refused.
func (r *Residents) Evictable() []*v1.Pod {
	var out []*v1.Pod
	for _, p := range r.Desired.Pods() {
		s, ok := r.Statuses.Get(p.UID)
		if !ok || podinfo.Terminal(s.Phase) || r.Lives.IsPodTerminationRequested(p.UID) || !r.Known(p.UID) {
			continue
		}
		pod := *r.allocated(p)
		pod.Status = s
		out = append(out, &pod)
	}
	return out
}

func (r *Residents) allocated(pod *v1.Pod) *v1.Pod {
	if r.Allocated == nil {
		return pod
	}
	return r.Allocated(pod)
}

// Complete reports whether every source has named its pods, and whether those that run already, by their statuses, have their
// workers.
func (r *Residents) Complete() bool {
	return r.Heard() && !slices.ContainsFunc(r.Desired.Pods(), func(p *v1.Pod) bool {
		s, ok := r.Statuses.Get(p.UID)
		return ok && s.Phase == v1.PodRunning && !r.Known(p.UID)
	})
}

// Unfinished returns the pods that have a worker and hold something, by namespace and name. It does not
// have pods that only the runtime knows, and that are being stopped.
func (r *Residents) Unfinished() []*v1.Pod {
	all := r.Stopping()
	for _, p := range r.Desired.Pods() {
		all[p.UID] = p // without the status of its end
	}
	var out []*v1.Pod
	for uid, p := range all {
		if !r.Finished(uid) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, byName)
	return out
}

func byName(a, b *v1.Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

// Leaving returns the pods that are being stopped and still hold something. It includes pods that
// had to stop before a restart, even before they have a worker.
func (r *Residents) Leaving() []*v1.Pod {
	// First those without a worker: a pod that gets one meanwhile is found below.
	ending := slices.DeleteFunc(r.Ending(), func(p *v1.Pod) bool { return r.Known(p.UID) })
	leaving := slices.DeleteFunc(r.Unfinished(), func(p *v1.Pod) bool { return !r.Lives.IsPodTerminationRequested(p.UID) })
	return append(leaving, ending...)
}

// Departing returns the pods that have a place and are about to lose it, because no source wants
// them any more or they are being stopped. It includes a pod from the moment its source drops it.
func (r *Residents) Departing() []*v1.Pod {
	return slices.DeleteFunc(r.Holding(), func(p *v1.Pod) bool {
		_, desired := r.Desired.Get(p.UID)
		return desired && !r.Lives.IsPodTerminationRequested(p.UID)
	})
}

// Known reports whether the pod has a worker.
func (r *Residents) Known(uid types.UID) bool {
	return r.Lives.IsPodKnown(uid)
}

// Finished reports whether the pod no longer holds anything of the node.
func (r *Residents) Finished(uid types.UID) bool {
	return !r.Known(uid) || r.Lives.ShouldPodBeFinished(uid)
}

// Unwanted reports whether no source wants the pod, nor may want it (ND2). Until every source has been
// heard, this is not known of any pod.
func (r *Residents) Unwanted(uid types.UID) bool {
	if _, desired := r.Desired.Get(uid); desired || !r.Heard() || !r.MaybeWanted(uid).IsZero() {
		return false
	}
	_, desired := r.Desired.Get(uid) // a source that had not named it may have done so meanwhile, and has decided since
	return !desired
}

// Orphaned reports whether the pod is unwanted and no worker knows it.
func (r *Residents) Orphaned(uid types.UID) bool {
	return r.Unwanted(uid) && !r.Known(uid)
}
