package resize

import (
	"cmp"
	"slices"

	"github.com/podwright/podwright/runtime"
)

// Change is a running container to be updated in place.
type Change struct {
	Name string
	// Have is what it was last given, Want what it should have.
	Have, Want runtime.Resources
}

// Limits are the settings of a pod's cgroup. 0: not set, or not wanted.
type Limits struct {
	// Shares is the weight, Quota the CPU time per period, Memory the limit in
	// bytes. A negative quota or limit is none.
	Shares, Quota, Memory int64
}

// Step is one call.
type Step struct {
	// Container is updated to Resources; empty: the pod's cgroup is set to Pod.
	Container string
	Resources runtime.Resources
	Pod       Limits
}

// Steps returns the calls that lead from what is to what is wanted, in the order of
// 21.6: memory, then CPU; the pod's cgroup makes room before its containers grow, and
// follows when they have shrunk; among containers decreases come first, so that the
// sum stays inside. Each update carries the values of the other resource as they are
// at that moment. have and want are nil if pods have no cgroups of their own.
func Steps(changes []Change, have, want *Limits) []Step {
	var none Limits
	if have == nil || want == nil {
		have, want = &none, &none
	}
	var out []Step
	pod := func(when bool, l Limits) {
		if when {
			out = append(out, Step{Pod: l})
		}
	}
	now := make([]Change, len(changes))
	copy(now, changes)

	pod(grows(have.Memory, want.Memory), Limits{Memory: want.Memory})
	out = append(out, update(now, func(c *Change) int64 { return delta(c.Have.MemoryLimit, c.Want.MemoryLimit) }, func(c *Change) bool {
		changed := c.Have.MemoryLimit != c.Want.MemoryLimit || c.Have.MemoryRequest != c.Want.MemoryRequest
		c.Have.MemoryLimit, c.Have.MemoryRequest = c.Want.MemoryLimit, c.Want.MemoryRequest
		return changed
	})...)
	pod(shrinks(have.Memory, want.Memory), Limits{Memory: want.Memory})

	pod(grows(have.Quota, want.Quota), Limits{Quota: want.Quota})
	pod(want.Shares > have.Shares, Limits{Shares: want.Shares})
	out = append(out, update(now, func(c *Change) int64 { return delta(c.Have.MilliCPULimit, c.Want.MilliCPULimit) }, func(c *Change) bool {
		changed := c.Have.MilliCPULimit != c.Want.MilliCPULimit || c.Have.MilliCPURequest != c.Want.MilliCPURequest
		c.Have.MilliCPULimit, c.Have.MilliCPURequest = c.Want.MilliCPULimit, c.Want.MilliCPURequest
		return changed
	})...)
	pod(want.Shares > 0 && want.Shares < have.Shares, Limits{Shares: want.Shares})
	pod(shrinks(have.Quota, want.Quota), Limits{Quota: want.Quota})
	return out
}

// update orders one resource's changes and applies them to now.
func update(now []Change, by func(*Change) int64, apply func(*Change) bool) []Step {
	order := make([]*Change, len(now))
	for i := range now {
		order[i] = &now[i]
	}
	slices.SortStableFunc(order, func(a, b *Change) int { return cmp.Compare(by(a), by(b)) })
	var out []Step
	for _, c := range order {
		if apply(c) {
			out = append(out, Step{Container: c.Name, Resources: c.Have})
		}
	}
	return out
}

// delta is how much a limit grows; no limit is more than any.
func delta(have, want int64) int64 {
	switch {
	case have == want:
		return 0
	case want == 0:
		return 1<<63 - 1
	case have == 0:
		return want - (1<<63 - 1)
	}
	return want - have
}

// grows and shrinks compare limits; a value below 1 means no limit. A pod's limit
// that is no longer wanted stays (21.7).
func grows(have, want int64) bool   { return want > 0 && have > 0 && want > have }
func shrinks(have, want int64) bool { return want > 0 && (have <= 0 || want < have) }
