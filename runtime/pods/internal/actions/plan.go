package actions

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/proberesult"
	"github.com/podwright/podwright/internal/restarts"
	"github.com/podwright/podwright/runtime"
)

// Probes are the latest results for one container.
type Probes struct {
	Startup, Liveness proberesult.Result
}

// Input is everything the decision depends on. It is only read.
type Input struct {
	Pod *v1.Pod
	// Status is what the runtime shows; nil means nothing exists.
	Status *runtime.PodStatus
	// Probes by container. Nil: no probe runs, and startup probes count as
	// passed. A container without an entry has no result yet.
	Probes map[runtime.ContainerID]Probes
	// Resizes has what running containers need. Nil, or no entry: nothing.
	Resizes map[runtime.ContainerID]Resize
	// Asked has the runs to replace, whatever the restart policy says about their end. Nil: none.
	Asked *restarts.Asked
	// Outside is true if what runs is outside of the pod's cgroup, which is missing: unless the plan ends the
	// pod, all of it is stopped before the plan is carried out, and replaced by the next one (7.2).
	Outside bool
}

// KillReason is why a container is killed.
type KillReason string

// Reasons to kill a container.
const (
	Changed       KillReason = "ContainerChanged"
	StateUnknown  KillReason = "ContainerStateUnknown"
	StartupProbe  KillReason = "StartupProbe"
	LivenessProbe KillReason = "LivenessProbe"
	Resized       KillReason = "ContainerResized"
	Requested     KillReason = "RestartRequested"
)

// Kill is a container to stop.
type Kill struct {
	Record *runtime.ContainerStatus
	// Spec is the container's definition in the pod.
	Spec   *v1.Container
	Reason KillReason
	// Restart is true if the container is started again afterwards.
	Restart bool
}

// Reset is a container record to remove when all containers restart.
type Reset struct {
	Record *runtime.ContainerStatus
	// Source is true for a container whose exit asked for the reset.
	Source bool
	// Newest is true for the newest record of its name.
	Newest bool
	Spec   *v1.Container
}

// Plan is what to do, in the order of spec/runtime.md 7. The zero Plan means
// that the pod is as it should be.
type Plan struct {
	// Reset, if not empty, is the whole plan: remove these records in order
	// (spec/runtime.md 6.9).
	Reset []Reset

	// KillPod stops all containers and all sandboxes first.
	KillPod bool
	// CreateSandbox makes a new sandbox, with Attempt. Without it and with
	// KillPod the plan ends there.
	CreateSandbox bool
	Attempt       uint32
	// SandboxID is the sandbox to use when none is created.
	SandboxID string
	// Replaced is the former sandbox to name in messages, often empty.
	Replaced string

	// Kill lists single containers to stop. With KillPod they stop with the pod, each for its
	// own reason.
	Kill []Kill

	// Indices into the pod's container lists, ascending.
	StartEphemeral []int
	StartInit      []int
	StartApp       []int

	// Own are the runs to be remembered as those that are replaced for a reason of the engine's
	// own, before anything stops (spec/runtime.md 6.12).
	Own []restarts.Run

	// ResizeInit and ResizeApp are running containers whose resources must be updated
	// in place, ascending (spec/runtime.md 7, step 9).
	ResizeInit []int
	ResizeApp  []int
	// ResizePod is true if a container restarts for its resources, so that the pod's
	// own must be brought in line.
	ResizePod bool
}

// dropAll replaces the plan by one that stops the whole pod (spec/runtime.md 6.4, 6.8;
// 7 starts nothing after it).
func (p *Plan) dropAll() {
	*p = Plan{KillPod: true, SandboxID: p.SandboxID, Attempt: p.Attempt}
}

// Starts reports whether the plan starts any container.
func (p *Plan) Starts() bool {
	return len(p.StartEphemeral)+len(p.StartInit)+len(p.StartApp) > 0
}

// Empty reports whether there is nothing to do.
func (p *Plan) Empty() bool {
	return !p.KillPod && !p.CreateSandbox && len(p.Reset) == 0 && len(p.Kill) == 0 &&
		len(p.StartEphemeral) == 0 && len(p.StartInit) == 0 && len(p.StartApp) == 0 &&
		len(p.ResizeInit) == 0 && len(p.ResizeApp) == 0 && !p.ResizePod
}
