package pods

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods/internal/resize"
)

// AllocationOptions configures [Allocations]. Store is required.
type AllocationOptions struct {
	// Store keeps what was allocated and given across restarts.
	Store ResourceStore
	// Allocatable returns the CPU and memory that all pods together may request. A resource
	// that is missing from it is not checked. Called without a lock, for every decision; it
	// must not block. Nil: nothing is checked.
	Allocatable func() v1.ResourceList
	// Active returns the pods that have, or are about to have, resources of this
	// node, as their sources want them. Other pods, and those that are being deleted, are
	// granted nothing more. Called without a lock. Nil: only the pod in question.
	Active func() []*v1.Pod
	// Wake asks for a sync of a pod that the sync of another pod admitted. Called
	// without a lock; it must not block. Nil: the pod waits for its next sync.
	Wake func(uid types.UID)
	// NoUpdate: the runtime is no [cri.ResourceUpdater], so only resizes that
	// restart the container are possible.
	NoUpdate bool
	// StaticCPU and StaticMemory: Guaranteed pods have CPUs or memory of their own
	// and are not resized. Swap: containers may swap (spec/runtime.md 21.4).
	StaticCPU, StaticMemory, Swap bool

	// Clock is the time source. Nil: the real clock.
	Clock clock.PassiveClock
	// Events receives the pods' events. Nil: dropped.
	Events podinfo.EventRecorder
}

// Allocations decides about changes of the resources of running pods, and remembers
// what was decided and done (spec/runtime.md 21.1-21.4):
//
//	desired (spec) ──Allocate──► allocated ──Manager──► actuated ──runtime──► actual
//
// Give it to a [Manager], and give the Manager pods as they were allocated. A pod
// that asks for no CPU and no memory costs no record. Methods may be called from many
// goroutines; those that take a pod must be serialised per pod, like
// [Manager.SyncPod].
type Allocations struct {
	options AllocationOptions

	// mu guards what follows. It is never held during a call.
	mu   sync.Mutex
	pods map[types.UID]*allocation
	// left has the pods that are gone, but whose record may still be in the store.
	left map[types.UID]bool
	// retry is when deferred resizes are due again, zero if there are none.
	retry time.Time
	// counted is how often Granted answered for a pod whose resize is not decided: a decision that is under way
	// has to count the pod that is admitted with this answer.
	counted uint64
}

// allocation is what is known of one pod.
type allocation struct {
	record record
	// unstored is true while the first record is not in the store, and has to be.
	unstored bool
	// granted was admitted but is not stored yet; only the pod's own sync stores it.
	granted *resize.Allocation
	// grantedGeneration is the generation of the spec that granted comes from.
	grantedGeneration int64
	// refused is what the verdict in the condition is about; nil if there is none.
	refused *resize.Allocation
	// pod is the newest version that was refused; it has waited since then.
	pod   *v1.Pod
	since time.Time
	// dirty is true while changed conditions are not stored.
	dirty bool
	// seen is the pod as last seen, applied the same pod as it was allocated.
	seen, applied *v1.Pod
	// summed is the pod of which requests was added up, with what it was allocated or granted;
	// waiting is its place in the queue. Both are added up again when that changes.
	summed   *v1.Pod
	requests v1.ResourceList
	waiting  *resize.Request
}

// changed forgets what follows from what the pod was allocated or granted. The lock must be held.
func (p *allocation) changed() { p.seen, p.summed, p.waiting = nil, nil, nil }

// decided reports whether there is a verdict on a resize that is not allocated. An earlier agent's is only in the
// conditions. The lock must be held.
func (p *allocation) decided() bool {
	return p.granted != nil || p.refused != nil || condition(p.record.Conditions, v1.PodResizePending) != nil
}

// holds returns what no other pod may have: what the pod was allocated, and what it was granted but is not
// allocated yet. A pod that gives something back holds it until that is stored. The lock must be held.
func (p *allocation) holds() resize.Allocation {
	if p.granted == nil {
		return p.record.Allocated
	}
	return p.record.Allocated.Larger(*p.granted)
}

// requested returns what a pod requests by what it holds. The lock must be held.
func (p *allocation) requested(pod *v1.Pod) v1.ResourceList {
	if p.summed != pod {
		p.summed, p.requests = pod, resize.Requests(resize.Apply(pod, p.holds()))
	}
	return p.requests
}

// request returns the resize that waits to be admitted. The lock must be held.
func (p *allocation) request() resize.Request {
	if p.waiting == nil {
		r := resize.NewRequest(resize.Apply(p.pod, p.record.Allocated), p.pod, p.since)
		p.waiting = &r
	}
	return *p.waiting
}

// apply returns the pod as it was allocated. The lock must be held.
func (p *allocation) apply(pod *v1.Pod) *v1.Pod {
	if p.seen != pod {
		p.seen, p.applied = pod, resize.Apply(pod, p.record.Allocated)
	}
	return p.applied
}

// record is what a store keeps. What it points to is never changed, only replaced.
type record struct {
	Allocated resize.Allocation            `json:"allocated"`
	Actuated  map[string]runtime.Resources `json:"actuated,omitempty"`
	// Pod is what the pod as a whole was given.
	Pod *runtime.Resources `json:"pod,omitempty"`
	// Requests is what the pod requests by what it was allocated.
	Requests   v1.ResourceList   `json:"requests,omitempty"`
	Conditions []v1.PodCondition `json:"conditions,omitempty"`
	// Admitted is when the life of the UID was admitted to which this belongs; zero if that is not known.
	Admitted time.Time `json:"admitted,omitzero"`
}

// given returns what the pod requests by what it was allocated, or nil if it holds nothing.
func (r *record) given() v1.ResourceList {
	switch {
	case r.Requests != nil:
		return r.Requests
	case r.Pod != nil: // the record of an earlier version
		return resize.RequestsOf(*r.Pod)
	}
	return nil
}

// NewAllocations returns empty Allocations; see [Allocations.Load].
func NewAllocations(o AllocationOptions) (*Allocations, error) {
	if o.Store == nil {
		return nil, errors.New("allocations need a Store")
	}
	if o.Allocatable == nil {
		o.Allocatable = func() v1.ResourceList { return nil }
	}
	if o.Active == nil {
		o.Active = func() []*v1.Pod { return nil }
	}
	if o.Wake == nil {
		o.Wake = func(types.UID) {}
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Events == nil {
		o.Events = podinfo.DiscardEvents{}
	}
	return &Allocations{options: o, pods: map[types.UID]*allocation{}, left: map[types.UID]bool{}}, nil
}

// Load reads what was stored. Call it once, before anything else. After an error, no
// engine should start: it would resize pods to what was refused (spec/runtime.md 21.1).
func (a *Allocations) Load() error {
	records, err := a.options.Store.Load()
	if err != nil {
		return fmt.Errorf("the records of allocated resources cannot be read: %w", err)
	}
	loaded := make(map[types.UID]*allocation, len(records))
	for uid, text := range records {
		var r record
		if err := json.Unmarshal(text, &r); err != nil {
			return fmt.Errorf("the record of the resources allocated to pod %s is damaged: repair it, or remove it to allocate what the pod's spec asks for: %w", uid, err)
		}
		loaded[uid] = &allocation{record: r}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pods = loaded
	return nil
}

// Admitted notes that a pod was admitted with the resources it asks for: it is allocated these at its first sync, and what it
// asks for by then is a resize. It has no effect on a pod that was allocated something before in this life. at is when this life of
// the UID was admitted, zero if that is not known, and started whether a container of it was started: until then, what was
// allocated to a life that was admitted at another time does not count. It is replaced in the store by the pod's first sync, or removed
// by [Allocations.Forget]. Admitted stores nothing, and may be called at any time.
func (a *Allocations) Admitted(pod *v1.Pod, at time.Time, started bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.pods[pod.UID]
	if p != nil && !started && !p.record.Admitted.IsZero() && !p.record.Admitted.Equal(at) {
		a.left[pod.UID] = true
		p = nil
	}
	if p == nil {
		p = a.note(pod)
	}
	p.record.Admitted = at
}

// note begins the record of a pod that has none. One that asks for nothing needs none in the store: a
// missing record means zero. The lock must be held.
func (a *Allocations) note(pod *v1.Pod) *allocation {
	desired := resize.Of(pod)
	p := &allocation{
		record:   record{Allocated: desired, Requests: resize.Requests(pod)},
		unstored: !desired.None() || a.left[pod.UID],
	}
	a.pods[pod.UID] = p
	return p
}

// Granted returns the pod with the resources that no other pod may have: those that it was allocated, and
// those that it was granted and will be allocated by its next sync. Ask once the pod that is to be admitted
// beside it is active: what is granted later leaves that pod its room.
func (a *Allocations) Granted(pod *v1.Pod) *v1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.pods[pod.UID]
	if p != nil && p.pod != nil {
		a.counted++
	}
	switch {
	case p == nil:
		return pod
	case p.granted == nil:
		return p.apply(pod)
	}
	return resize.Apply(pod, p.holds())
}

// Allocated returns the pod with the resources it was allocated; the pod itself if
// those are what it asks for, or if nothing was allocated yet.
func (a *Allocations) Allocated(pod *v1.Pod) *v1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.pods[pod.UID]
	if p == nil {
		return pod
	}
	return p.apply(pod)
}

// Conditions returns the pod's conditions PodResizePending and PodResizeInProgress,
// those that it has. They are shared: do not change them.
func (a *Allocations) Conditions(uid types.UID) []v1.PodCondition {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.pods[uid]; p != nil {
		return p.record.Conditions
	}
	return nil
}

// Actuated returns what the pod's containers were last given, by name; no entry means
// unknown. The map is shared: do not change it.
func (a *Allocations) Actuated(uid types.UID) map[string]runtime.Resources {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.pods[uid]; p != nil {
		return p.record.Actuated
	}
	return nil
}

// Forget drops everything of a pod that is gone. After an error, call it again.
func (a *Allocations) Forget(uid types.UID) error {
	a.mu.Lock()
	if a.pods[uid] != nil {
		delete(a.pods, uid)
		a.left[uid] = true
	}
	left := a.left[uid]
	a.mu.Unlock()
	if !left {
		return nil
	}
	if err := a.options.Store.Remove(uid); err != nil {
		return fmt.Errorf("remove the record of the pod's resources: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.left, uid)
	return nil
}

// Known returns the UIDs of all pods that have a record.
func (a *Allocations) Known() []types.UID {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := slices.AppendSeq(make([]types.UID, 0, len(a.pods)+len(a.left)), maps.Keys(a.pods))
	for uid := range a.left {
		if a.pods[uid] == nil {
			out = append(out, uid)
		}
	}
	return out
}

// save stores a pod's record with change applied, then keeps it. Only the pod's own
// sync calls it, so writes never overlap.
func (a *Allocations) save(uid types.UID, change func(*record)) error {
	a.mu.Lock()
	p := a.pods[uid]
	if p == nil {
		p = &allocation{}
		a.pods[uid] = p
	}
	next := p.record
	change(&next)
	a.mu.Unlock()
	text, err := json.Marshal(next)
	if err == nil {
		err = a.options.Store.Save(uid, text)
	}
	if err != nil {
		return fmt.Errorf("store the pod's resources: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	// Conditions may have been set meanwhile by a retry; those are newer.
	if p.dirty {
		next.Conditions = merge(next.Conditions, p.record.Conditions)
	}
	p.record, p.unstored = next, false
	delete(a.left, uid)
	p.changed()
	return nil
}

// merge takes the pending condition from newer.
func merge(conditions, newer []v1.PodCondition) []v1.PodCondition {
	out := without(conditions, v1.PodResizePending)
	if c := condition(newer, v1.PodResizePending); c != nil {
		out = append(out, *c)
	}
	return out
}

func condition(list []v1.PodCondition, t v1.PodConditionType) *v1.PodCondition {
	for i := range list {
		if list[i].Type == t {
			return &list[i]
		}
	}
	return nil
}

// without returns a new list without the conditions of one type.
func without(list []v1.PodCondition, t v1.PodConditionType) []v1.PodCondition {
	return slices.DeleteFunc(slices.Clone(list), func(c v1.PodCondition) bool { return c.Type == t })
}

// with returns a new list in which c replaces the condition of its type; the
// transition time changes only with the reason (spec/status.md 5.6).
func with(list []v1.PodCondition, c v1.PodCondition, now time.Time) []v1.PodCondition {
	c.Status = v1.ConditionTrue
	c.LastProbeTime, c.LastTransitionTime = metav1.NewTime(now), metav1.NewTime(now)
	if old := condition(list, c.Type); old != nil && old.Reason == c.Reason {
		c.LastTransitionTime = old.LastTransitionTime
	}
	return append(without(list, c.Type), c)
}
