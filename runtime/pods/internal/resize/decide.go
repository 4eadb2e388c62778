package resize

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime"
)

// Action is what a running container needs.
type Action uint8

// Actions.
const (
	None Action = iota
	InPlace
	Restart
)

// Decide compares what a running container should have with what it has been given
// (21.2, 21.5): a resource whose policy is RestartContainer restarts it when any of
// its values changes.
func Decide(c *v1.Container, want, have runtime.Resources) Action {
	if want == have {
		return None
	}
	cpu := want.MilliCPURequest != have.MilliCPURequest || want.MilliCPULimit != have.MilliCPULimit
	memory := want.MemoryRequest != have.MemoryRequest || want.MemoryLimit != have.MemoryLimit
	for _, p := range c.ResizePolicy {
		if p.RestartPolicy == v1.RestartContainer && (p.ResourceName == v1.ResourceCPU && cpu || p.ResourceName == v1.ResourceMemory && memory) {
			return Restart
		}
	}
	return InPlace
}

// Up to these values cgroups look alike: the smallest weight and the smallest quota.
const (
	leastMilliRequest = 2
	leastMilliLimit   = 10
)

// Reported reports whether a runtime's report means the wanted values (21.3): the
// smallest ones all look alike, and memory requests are not reported.
func Reported(want, reported runtime.Resources) bool {
	alike := func(a, b, least int64) bool { return a == b || a <= least && b <= least }
	return reported != (runtime.Resources{}) &&
		alike(want.MilliCPURequest, reported.MilliCPURequest, leastMilliRequest) &&
		alike(want.MilliCPULimit, reported.MilliCPULimit, leastMilliLimit) &&
		want.MemoryLimit == reported.MemoryLimit
}
