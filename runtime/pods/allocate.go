package pods

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime/pods/internal/resize"
)

// How long until deferred resizes are retried although nothing changed (spec/runtime.md 21.4).
const (
	firstResizeRetry = 30 * time.Second
	resizeRetry      = 3 * time.Minute
)

// Allocate returns the pod with the resources it may have now. A pod seen for the
// first time gets what it asks for; if it asks for something else later, that is
// admitted, deferred or refused (spec/runtime.md 21.4), which shows in
// [Allocations.Conditions]. changed reports that the conditions or the allocation
// changed. An error means that nothing could be stored: the pod is synced as it is allocated,
// and the resize waits. If allocated is nil, too, the pod has no record yet and must not be synced.
func (a *Allocations) Allocate(pod *v1.Pod) (allocated *v1.Pod, changed bool, err error) {
	a.mu.Lock()
	p := a.pods[pod.UID]
	if p == nil {
		p = a.note(pod)
	}
	if p.seen == pod && p.applied == pod && !p.decided() && !p.dirty && !p.unstored {
		a.mu.Unlock()
		return pod, false, nil
	}
	if p.unstored {
		a.mu.Unlock()
		if err := a.save(pod.UID, func(*record) {}); err != nil {
			return nil, false, err
		}
		a.mu.Lock()
	}
	desired := resize.Of(pod)
	p.record.Allocated = p.record.Allocated.Follow(desired)
	p.changed()
	asks := !desired.Equal(p.record.Allocated)
	// A refusal of an earlier generation is repeated for the newest one.
	decided := p.granted != nil && desired.Equal(*p.granted) ||
		p.refused != nil && desired.Equal(*p.refused) && p.pod != nil && p.pod.Generation == pod.Generation
	if !asks && p.decided() { // taken back
		p.granted, p.refused, p.pod = nil, nil, nil
		p.record.Conditions, p.dirty = without(p.record.Conditions, v1.PodResizePending), true
	}
	if asks && !decided {
		p.granted, p.refused = nil, nil
		if p.pod == nil {
			p.since = a.options.Clock.Now()
			if c := condition(p.record.Conditions, v1.PodResizePending); c != nil {
				p.since = c.LastTransitionTime.Time
			}
		}
		p.pod = pod
	}
	a.mu.Unlock()
	if asks && !decided {
		a.decide(pod.UID, false)
	}
	return a.commit(pod)
}

// commit stores what was decided about a pod, in the pod's own sync.
func (a *Allocations) commit(pod *v1.Pod) (*v1.Pod, bool, error) {
	a.mu.Lock()
	p := a.pods[pod.UID]
	granted, generation, dirty := p.granted, p.grantedGeneration, p.dirty
	p.dirty = false
	allocated := p.apply(pod)
	var requests v1.ResourceList
	if granted != nil {
		requests = resize.Requests(resize.Apply(pod, *granted))
	}
	a.mu.Unlock()
	if granted == nil && !dirty {
		return allocated, false, nil
	}
	now := a.options.Clock.Now()
	err := a.save(pod.UID, func(r *record) {
		if granted == nil {
			return
		}
		r.Allocated, r.Requests = *granted, requests
		r.Conditions = with(without(r.Conditions, v1.PodResizePending),
			v1.PodCondition{Type: v1.PodResizeInProgress, ObservedGeneration: generation}, now)
	})
	a.mu.Lock()
	if err != nil {
		p.dirty = p.dirty || dirty
	} else if p.granted == granted {
		p.granted = nil
	}
	allocated = p.apply(pod)
	a.mu.Unlock()
	if err == nil && granted != nil {
		a.options.Events.Eventf(podRef(pod), v1.EventTypeNormal, "ResizeStarted", "The pod is being resized to what it asks for")
	}
	return allocated, true, err
}

// Retry retries deferred resizes: call it after any change that may have made room,
// and, with timed set, at the time that [Allocations.NextRetry] returns. It wakes
// the pods that it admits.
func (a *Allocations) Retry(timed bool) {
	a.decide("", timed)
}

// NextRetry returns when deferred resizes are due although nothing changed; the
// zero time if there are none.
func (a *Allocations) NextRetry() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.retry
}

// pendingEvent is an event to raise once the lock is released.
type pendingEvent struct {
	pod             *v1.Pod
	reason, message string
}

// decide goes through the queue. self, if not empty, is the pod whose sync this is. It is not woken. If it is
// not admitted, the others are not looked at, because nothing has changed for them.
func (a *Allocations) decide(self types.UID, timed bool) {
	active, allocatable := a.lockWithActive()
	node := resize.Node{
		Allocatable: allocatable, StaticCPU: a.options.StaticCPU, StaticMemory: a.options.StaticMemory,
		Swap: a.options.Swap, NoUpdate: a.options.NoUpdate,
	}
	now := a.options.Clock.Now()
	t := a.totals(active)
	queue, alone := a.refusedAlone(self, t, node)
	if !alone {
		queue = a.queue(self, active)
	}
	var wake []types.UID
	var events []pendingEvent
	deferred := false
	for _, r := range queue {
		v := resize.Admit(r.From, r.To, t.Others(r.UID), node)
		if v.Reason == "" {
			a.grant(r, t)
			wake = append(wake, r.UID)
			continue
		}
		deferred = deferred || v.Reason == v1.PodReasonDeferred
		if a.refuse(r, v, now, timed) {
			events = append(events, pendingEvent{r.To, "Resize" + v.Reason, v.Message})
			wake = append(wake, r.UID)
		}
	}
	switch {
	case !deferred && !alone:
		a.retry = time.Time{}
	case timed:
		a.retry = now.Add(resizeRetry)
	case deferred && a.retry.IsZero():
		a.retry = now.Add(firstResizeRetry)
	}
	a.mu.Unlock()
	for _, e := range events {
		a.options.Events.Eventf(podRef(e.pod), v1.EventTypeWarning, e.reason, "%s", e.message)
	}
	for _, uid := range wake {
		if uid != self {
			a.options.Wake(uid)
		}
	}
}

// lockWithActive returns the active pods and what there is to give, with the lock held. The pods include every one that was
// admitted beside what is to be decided.
func (a *Allocations) lockWithActive() (active []*v1.Pod, allocatable v1.ResourceList) {
	a.mu.Lock()
	for {
		counted := a.counted
		a.mu.Unlock()
		active, allocatable = a.options.Active(), a.options.Allocatable()
		a.mu.Lock()
		if a.counted == counted {
			return active, allocatable
		}
	}
}

// refusedAlone returns the resize of the pod whose sync this is as the only one to decide, if it is not admitted. The
// lock must be held.
func (a *Allocations) refusedAlone(self types.UID, t *resize.Totals, node resize.Node) ([]resize.Request, bool) {
	p := a.pods[self]
	if p == nil || p.pod == nil || p.granted != nil {
		return nil, false
	}
	r := p.request()
	if resize.Admit(r.From, r.To, t.Others(self), node).Reason == "" {
		return nil, false
	}
	return []resize.Request{r}, true
}

// grant admits a resize; the pod's own sync stores that. The lock must be held.
func (a *Allocations) grant(r resize.Request, t *resize.Totals) {
	p := a.pods[r.UID]
	desired, active := resize.Of(r.To), p.summed
	p.granted, p.grantedGeneration, p.refused, p.pod = &desired, r.To.Generation, nil, nil
	p.changed()
	if active != nil && t.Has(r.UID) {
		t.Set(r.UID, p.requested(active))
	}
}

// refuse notes why a resize is not admitted and reports whether that is news. The lock must be held.
func (a *Allocations) refuse(r resize.Request, v resize.Verdict, now time.Time, timed bool) (news bool) {
	p := a.pods[r.UID]
	old := condition(p.record.Conditions, v1.PodResizePending)
	news = old == nil || old.Reason != v.Reason || old.Message != v.Message || old.ObservedGeneration != r.To.Generation
	if news || timed {
		p.record.Conditions = with(p.record.Conditions, v1.PodCondition{
			Type: v1.PodResizePending, Reason: v.Reason, Message: v.Message, ObservedGeneration: r.To.Generation,
		}, now)
		p.dirty = true
	}
	desired := resize.Of(r.To)
	p.refused, p.pod = &desired, r.To
	return news
}

// queue returns what waits for admission, in order: infeasible resizes only if their
// own spec has just changed, and none of pods that do not stay. The lock must be held.
func (a *Allocations) queue(self types.UID, active []*v1.Pod) []resize.Request {
	stays := map[types.UID]bool{}
	for _, pod := range active {
		stays[pod.UID] = pod.DeletionTimestamp == nil
	}
	var list []resize.Request
	for uid, p := range a.pods {
		if p.pod == nil || p.granted != nil || active != nil && !stays[uid] && uid != self {
			continue
		}
		c := condition(p.record.Conditions, v1.PodResizePending)
		if uid != self && p.refused != nil && c != nil && c.Reason == v1.PodReasonInfeasible {
			continue
		}
		list = append(list, p.request())
	}
	resize.Sort(list)
	return list
}

// totals adds up what all pods request, by what they have been, or are just being, allocated. A pod
// that is not active but has a record counts too: an agent that has just started does not know all
// pods yet. The lock must be held.
func (a *Allocations) totals(active []*v1.Pod) *resize.Totals {
	t := resize.NewTotals()
	for _, pod := range active {
		if t.Has(pod.UID) {
			continue
		}
		if p := a.pods[pod.UID]; p != nil {
			t.Set(pod.UID, p.requested(pod))
		} else {
			t.Set(pod.UID, resize.Requests(pod))
		}
	}
	for uid, p := range a.pods {
		if given := p.record.given(); given != nil && !p.unstored && !t.Has(uid) {
			t.Set(uid, given)
			p.summed = nil
		}
	}
	return t
}

// failed notes that a step of a resize failed (spec/status.md 5.6).
func (a *Allocations) failed(pod *v1.Pod, cause error) error {
	a.options.Events.Eventf(podRef(pod), v1.EventTypeWarning, "ResizeError", "The resize went wrong: %v", cause)
	now := a.options.Clock.Now()
	return a.save(pod.UID, func(r *record) {
		c := v1.PodCondition{Type: v1.PodResizeInProgress, ObservedGeneration: pod.Generation}
		if old := condition(r.Conditions, v1.PodResizeInProgress); old != nil {
			c.ObservedGeneration = old.ObservedGeneration
		}
		c.Reason, c.Message = v1.PodReasonError, fmt.Sprint(cause)
		r.Conditions = with(r.Conditions, c, now)
	})
}

// inProgress reports whether a resize of the pod has not been completed.
func (a *Allocations) inProgress(uid types.UID) bool {
	return condition(a.Conditions(uid), v1.PodResizeInProgress) != nil
}

// completed clears the condition (spec/runtime.md 21.9).
func (a *Allocations) completed(pod *v1.Pod) error {
	err := a.save(pod.UID, func(r *record) { r.Conditions = without(r.Conditions, v1.PodResizeInProgress) })
	if err == nil {
		a.options.Events.Eventf(podRef(pod), v1.EventTypeNormal, "ResizeCompleted", "The pod has been resized")
	}
	return err
}
