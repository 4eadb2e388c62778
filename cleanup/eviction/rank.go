package eviction

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Candidate is a pod that may be evicted.
type Candidate struct {
	Pod *v1.Pod
	// Class is its QoS class, Requests what it takes from its node.
	Class    v1.PodQOSClass
	Requests v1.ResourceList
	Usage    Usage
}

// over is how much the pod uses above its request, of what a signal is about.
func (c Candidate) over(k kind) int64 {
	request := c.Requests[k.resource]
	return int64(min(k.used(c.Usage), 1<<62)) - request.Value()
}

// Rank sorts candidates in the order in which they are evicted: those that use more
// than they requested before those that do not, then lower priority first, then
// the larger excess first, then BestEffort before Burstable before Guaranteed. A pod
// whose usage is not known counts as using nothing.
func Rank(signal Signal, candidates []Candidate) {
	k := signal.kind()
	class := map[v1.PodQOSClass]int{v1.PodQOSBestEffort: 0, v1.PodQOSBurstable: 1, v1.PodQOSGuaranteed: 2}
	within := func(c Candidate) int {
		if c.over(k) > 0 {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(candidates, func(a, b Candidate) int {
		return cmp.Or(
			cmp.Compare(within(a), within(b)),
			cmp.Compare(priority(a.Pod), priority(b.Pod)),
			cmp.Compare(b.over(k), a.over(k)),
			cmp.Compare(class[a.Class], class[b.Class]),
			cmp.Compare(a.Pod.UID, b.Pod.UID),
		)
	})
}

func priority(pod *v1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// message says to people why a pod is evicted.
func message(b Breach, c Candidate) string {
	k := b.Signal.kind()
	text := fmt.Sprintf("The node was low on resource: %s. Threshold quantity: %s, available: %s.",
		k.resource, k.amount(b.Value.of(b.Observed.Capacity)), k.amount(b.Observed.Available))
	if used := k.used(c.Usage); used > 0 {
		request := c.Requests[k.resource]
		text += fmt.Sprintf(" The pod was using %s, its request is %s.", k.amount(used), request.String())
	}
	return text
}
