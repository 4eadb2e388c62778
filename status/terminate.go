package status

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/restartpolicy"
)

// TerminatePod marks a pod as finished: its containers have stopped and everything the engine held
// for it is released (7.8). Containers whose end was not seen get exit code 137 and the reason
// ContainerStatusUnknown, containers that never started stay waiting, and a phase that is not
// terminal becomes Failed, except for static pods. The final status is sent even if it equals the
// cached one. The error is that of [Manager.SetPodStatus].
func (m *Manager) TerminatePod(pod *v1.Pod) error {
	base, ok := m.Get(pod.UID)
	if !ok {
		base = pod.Status
	}
	s := base.DeepCopy()
	if !ok { // a source may have any list, but one that does not match the spec would be refused
		s.InitContainerStatuses = ofSpec(pod.Spec.InitContainers, s.InitContainerStatuses)
	}
	finalStates(pod, s)
	if !podinfo.Static(pod) && !podinfo.Terminal(s.Phase) {
		s.Phase = v1.PodFailed
	}
	if podinfo.Terminal(s.Phase) {
		judgeReadiness(&pod.Spec, s)
	}
	return m.update(pod, s, true, true)
}

// ofSpec returns the first status of each container in the spec.
func ofSpec(spec []v1.Container, list []v1.ContainerStatus) []v1.ContainerStatus {
	var out []v1.ContainerStatus
	for i := range spec {
		if s := statusOf(list, i, spec[i].Name); s != nil {
			out = append(out, *s)
		}
	}
	return out
}

// finalStates ends every container that was started and whose end was not seen (7.8, 7.9). An
// ephemeral one that still showed as running would hold the end of the pod back (8.5). It writes to
// s.
func finalStates(pod *v1.Pod, s *v1.PodStatus) {
	if everInitialized(pod, s) {
		for i := range s.ContainerStatuses {
			end(&s.ContainerStatuses[i])
		}
	}
	started := 1
	for i := range s.InitContainerStatuses {
		if evidence(&s.InitContainerStatuses[i]) {
			started = i + 1
		}
	}
	for i := range min(started, len(s.InitContainerStatuses)) {
		end(&s.InitContainerStatuses[i])
	}
	for i := range s.EphemeralContainerStatuses {
		if cs := &s.EphemeralContainerStatuses[i]; cs.State.Running != nil {
			cs.State = lost(cs.ContainerID)
		}
	}
}

// end terminates a container that has no end yet.
func end(cs *v1.ContainerStatus) {
	cs.Ready = cs.Ready && cs.State.Terminated != nil
	if cs.State.Terminated == nil {
		cs.State = lost(cs.ContainerID)
		stopped := false
		cs.Started = &stopped
	}
}

// everInitialized reports whether the pod ever reached its app containers.
func everInitialized(pod *v1.Pod, s *v1.PodStatus) bool {
	if len(pod.Spec.InitContainers) == 0 || slices.ContainsFunc(s.ContainerStatuses, func(cs v1.ContainerStatus) bool { return evidence(&cs) }) {
		return true
	}
	last := &pod.Spec.InitContainers[len(pod.Spec.InitContainers)-1]
	cs := statusOf(s.InitContainerStatuses, len(pod.Spec.InitContainers)-1, last.Name)
	if cs == nil {
		return false
	}
	if restartpolicy.IsSidecar(last) {
		return cs.State.Running != nil && cs.Started != nil && *cs.Started
	}
	return restartpolicy.InitDone(&cs.State) || restartpolicy.InitDone(&cs.LastTerminationState)
}

// evidence reports whether a container was ever started.
func evidence(cs *v1.ContainerStatus) bool {
	return cs.State.Waiting == nil || cs.LastTerminationState.Terminated != nil
}

func succeeded(state *v1.ContainerState) bool {
	return state.Terminated != nil && state.Terminated.ExitCode == 0
}
