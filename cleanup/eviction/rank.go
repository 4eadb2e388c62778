package eviction

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podinfo"
)

// candidate is a pod that may be evicted.
type candidate struct {
	Pod   *v1.Pod
	Usage Usage
}

// over returns how much more than its request the pod uses of the signal's resource.
func (c candidate) over(k kind) int64 {
	if k.own {
		return 0 // pods neither use it nor request it
	}
	request := podinfo.Request(c.Pod, k.resource)
	return int64(min(k.used(c.Usage), 1<<62)) - request.Value()
}

// rank sorts candidates in the order in which they are evicted: pods that use more than they
// requested before those that do not, then lower priority first, then the larger excess first, then
// BestEffort before Burstable before Guaranteed. A pod whose usage is not known counts as using
// nothing.
func rank(k kind, candidates []candidate) {
	class := map[v1.PodQOSClass]int{v1.PodQOSBestEffort: 0, v1.PodQOSBurstable: 1, v1.PodQOSGuaranteed: 2}
	within := func(c candidate) int {
		if c.over(k) > 0 {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int {
		return cmp.Or(
			cmp.Compare(within(a), within(b)),
			cmp.Compare(podinfo.Priority(a.Pod), podinfo.Priority(b.Pod)),
			cmp.Compare(b.over(k), a.over(k)),
			cmp.Compare(class[podinfo.QoS(a.Pod)], class[podinfo.QoS(b.Pod)]),
			cmp.Compare(a.Pod.UID, b.Pod.UID),
		)
	})
}

// message returns the text that tells users why a pod is evicted.
func message(b breach, c candidate) string {
	k := b.kind
	if k.own {
		return b.explain()
	}
	text := fmt.Sprintf("The node was low on resource: %s. Threshold quantity: %s, available: %s.",
		k.resource, k.amount(b.Value.Of(b.Observed.Capacity)), k.amount(b.Observed.Available))
	if used := k.used(c.Usage); used > 0 {
		request := podinfo.Request(c.Pod, k.resource)
		text += fmt.Sprintf(" The pod was using %s, its request is %s.", k.amount(used), request.String())
	}
	return text
}
