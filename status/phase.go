package status

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/restartpolicy"
	"github.com/podwright/podwright/internal/restarts"
)

// Reasons that the engine itself puts into container states.
const (
	reasonUnknown    = "ContainerStatusUnknown"
	reasonRestartAll = "RestartingAllContainers"
	reasonCreating   = "ContainerCreating"
	reasonInitial    = "PodInitializing"
	reasonCompleted  = "Completed"
	reasonRequested  = "RestartRequested"
	reasonRestarting = "Restarting"

	// exitUnknown is the exit code of a container whose real exit code is lost.
	exitUnknown = 137
)

// census counts the containers of a pod by what they mean for its phase (spec/status.md 2.1).
// Ephemeral containers never count.
type census struct {
	initPending, initFinal    int
	sidecarPending            int
	unknown, waiting, running int
	// Of the app containers: those that stopped, those of them that succeeded, and those that will
	// not run again.
	stopped, succeeded, final int

	initialized, terminal, static bool

	// asked are the runs that are replaced whatever the restart policy says about their end.
	asked *restarts.Asked
}

// phaseOf computes the phase from the containers alone; the rules that make a phase stick apply
// afterwards. initialized is true if an app container was created in the latest ready sandbox.
func phaseOf(pod *v1.Pod, status *v1.PodStatus, initialized, terminal bool, asked *restarts.Asked) v1.PodPhase {
	n := census{initialized: initialized, terminal: terminal, static: podinfo.Static(pod), asked: asked}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		cs := statusOf(status.InitContainerStatuses, i, c.Name)
		if restartpolicy.IsSidecar(c) {
			n.countSidecar(cs)
		} else {
			n.countInit(pod, c, cs)
		}
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		n.countApp(pod, c, statusOf(status.ContainerStatuses, i, c.Name))
	}
	return n.phase()
}

// countInit counts a regular init container.
func (n *census) countInit(pod *v1.Pod, c *v1.Container, cs *v1.ContainerStatus) {
	if cs == nil || cs.State.Running != nil {
		n.initPending++
		return
	}
	end := cs.State.Terminated
	if end == nil && cs.State.Waiting != nil {
		end = cs.LastTerminationState.Terminated
	}
	switch {
	case end == nil:
		n.initPending++
	case end.Reason != reasonRestartAll && restartpolicy.InitFailed(end.ExitCode, end.Reason) &&
		restartpolicy.OnInitExit(pod, c, end.ExitCode, end.Reason) == restartpolicy.Stay:
		n.initFinal++
	}
}

// countSidecar counts a restartable init container. Its exits never matter.
func (n *census) countSidecar(cs *v1.ContainerStatus) {
	switch {
	case cs == nil:
		n.unknown++
	case cs.State.Running != nil:
		n.running++
		if cs.Started == nil || !*cs.Started {
			n.sidecarPending++
		}
	case cs.State.Terminated != nil:
	case cs.State.Waiting != nil:
		if cs.LastTerminationState.Terminated == nil {
			n.sidecarPending++
			n.waiting++
		}
	default:
		n.sidecarPending++
		n.unknown++
	}
}

// countApp counts an app container.
func (n *census) countApp(pod *v1.Pod, c *v1.Container, cs *v1.ContainerStatus) {
	switch {
	case cs == nil:
		n.unknown++
	case cs.State.Running != nil:
		n.running++
	case cs.State.Terminated != nil:
		n.stopped++
		if cs.State.Terminated.ExitCode == 0 {
			n.succeeded++
		}
		if !restartable(pod, c, cs.State.Terminated) {
			n.final++
		}
	case cs.State.Waiting != nil:
		last := cs.LastTerminationState.Terminated
		if last == nil {
			n.waiting++
			return
		}
		n.stopped++
		if !n.asked.HasID(last.ContainerID) && !restartable(pod, c, last) {
			n.final++
		}
	default:
		n.unknown++
	}
}

// phase decides the phase; the first matching row wins (spec/status.md 2.2).
func (n *census) phase() v1.PodPhase {
	allStopped := n.running == 0 && n.stopped > 0 && n.unknown == 0
	switch {
	case n.initFinal > 0: // row 1
		return v1.PodFailed
	case n.initPending > 0, n.sidecarPending > 0 && !n.initialized: // row 2
		return v1.PodPending
	case n.waiting > 0: // row 3
		return v1.PodPending
	case n.running > 0 && n.unknown == 0: // row 4
		return v1.PodRunning
	case allStopped && n.terminal && !n.static: // rows 5, 6
		if n.stopped == n.succeeded {
			return v1.PodSucceeded
		}
		return v1.PodFailed
	case allStopped && n.stopped != n.final: // row 7
		return v1.PodRunning
	case allStopped && n.stopped == n.succeeded: // row 8
		return v1.PodSucceeded
	case allStopped: // row 9
		return v1.PodFailed
	default: // row 10
		return v1.PodPending
	}
}

// restartable reports whether a container may run again after this exit
// (spec/runtime.md 6.1).
func restartable(pod *v1.Pod, c *v1.Container, end *v1.ContainerStateTerminated) bool {
	return end.Reason == reasonRestartAll || restartpolicy.OnExit(pod, c, end.ExitCode) != restartpolicy.Stay
}

// statusOf finds a container's status by name. at is its position if the list has the order of the
// spec.
func statusOf(list []v1.ContainerStatus, at int, name string) *v1.ContainerStatus {
	if at < len(list) && list[at].Name == name {
		return &list[at]
	}
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}
