package actions

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime"
)

// Sandbox is the answer to whether a pod needs a new sandbox.
type Sandbox struct {
	New bool
	// Attempt is the number of the new sandbox, or of the one kept.
	Attempt uint32
	// ID of the one kept.
	ID string
	// Replaced is the sandbox that a new one replaces, where messages name it.
	Replaced string
}

// NeedsSandbox applies the table of spec/runtime.md 5. There is no other reason for a
// new sandbox.
func NeedsSandbox(pod *v1.Pod, status *runtime.PodStatus) Sandbox {
	if status == nil || len(status.Sandboxes) == 0 {
		return Sandbox{New: true} // row 1
	}
	latest := status.Sandboxes[0]
	next := latest.Attempt + 1
	ready := 0
	for _, s := range status.Sandboxes {
		if s.State == runtime.Running {
			ready++
		}
	}
	switch {
	case ready > 1, latest.State != runtime.Running: // rows 2, 3
		return Sandbox{New: true, Attempt: next, Replaced: latest.ID}
	case latest.HostNetwork != pod.Spec.HostNetwork: // row 4
		return Sandbox{New: true, Attempt: next}
	case !pod.Spec.HostNetwork && latest.HasNetwork && latest.IP == "": // row 5
		return Sandbox{New: true, Attempt: next, Replaced: latest.ID}
	}
	return Sandbox{Attempt: latest.Attempt, ID: latest.ID}
}
