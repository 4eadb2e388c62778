package status

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/restartpolicy"
)

// transitionError says that an update was dropped because a container cannot get from its old state
// to the new one (spec/status.md 7.5).
type transitionError struct {
	// UID is the pod's.
	UID types.UID
	// Container is the name of the container.
	Container string
	// Problem says what is wrong.
	Problem string
}

// Error names pod, container and problem.
func (e *transitionError) Error() string {
	return fmt.Sprintf("status of pod %s, container %s: %s", e.UID, e.Container, e.Problem)
}

// checkTransitions returns a *transitionError if a container leaves Terminated although nothing
// allows it to run again, or if the init statuses do not match the spec. A container that runs is
// accepted whatever its policy, because a status reports what runs (IN5). Ephemeral containers are
// not checked.
func checkTransitions(pod *v1.Pod, old, fresh *v1.PodStatus) error {
	for i := range fresh.InitContainerStatuses {
		name := fresh.InitContainerStatuses[i].Name
		if specOf(pod.Spec.InitContainers, name) == nil {
			return &transitionError{UID: pod.UID, Container: name, Problem: "not an init container of the spec"}
		}
		if statusOf(fresh.InitContainerStatuses[:i], i, name) != nil {
			return &transitionError{UID: pod.UID, Container: name, Problem: "two init container statuses of this name"}
		}
	}
	if pod.Spec.RestartPolicy == v1.RestartPolicyAlways || pod.Spec.RestartPolicy == "" || restartpolicy.RestartsAll(&pod.Spec) {
		return nil
	}
	if err := checkLeaving(pod, pod.Spec.Containers, old.ContainerStatuses, fresh.ContainerStatuses, false); err != nil {
		return err
	}
	return checkLeaving(pod, pod.Spec.InitContainers, old.InitContainerStatuses, fresh.InitContainerStatuses, true)
}

// checkLeaving checks one list of containers. If initial is true, a new container may take the place
// of one that has ended for good: init containers run once per sandbox.
func checkLeaving(pod *v1.Pod, spec []v1.Container, old, fresh []v1.ContainerStatus, initial bool) error {
	for i := range old {
		end := old[i].State.Terminated
		if end == nil {
			continue
		}
		now := statusOf(fresh, i, old[i].Name)
		if now == nil || now.State.Terminated != nil || now.State.Running != nil {
			continue
		}
		if initial && now.ContainerID != "" && now.ContainerID != old[i].ContainerID {
			continue
		}
		c := specOf(spec, old[i].Name)
		if c == nil || mayLeave(pod, c, end, initial) {
			continue
		}
		return &transitionError{
			UID: pod.UID, Container: old[i].Name,
			Problem: fmt.Sprintf("left Terminated (exit code %d) although its restart policy does not allow it", end.ExitCode),
		}
	}
	return nil
}

// mayLeave reports whether a container may run again after this exit. It is a little wider than the
// restart predicate: a failure under OnFailure suffices even if the container's own policy would
// not restart it.
func mayLeave(pod *v1.Pod, c *v1.Container, end *v1.ContainerStateTerminated, initial bool) bool {
	return end.ExitCode != 0 && pod.Spec.RestartPolicy == v1.RestartPolicyOnFailure || restartable(pod, c, end) ||
		initial && restartpolicy.OnInitExit(pod, c, end.ExitCode, end.Reason) != restartpolicy.Stay
}

// keepEnds keeps in ours, for an API, the status of each container that an API server would not let leave Terminated: it
// refuses the whole status of a pod with a container that ended and runs again although its exit code does not allow it, as
// after a sandbox was replaced (8.4). Lists that change are copied.
func keepEnds(pod *v1.Pod, base, ours *v1.PodStatus) {
	if restartpolicy.RestartsAll(&pod.Spec) {
		return
	}
	ours.InitContainerStatuses = withEnds(pod, pod.Spec.InitContainers, base.InitContainerStatuses, ours.InitContainerStatuses)
	ours.ContainerStatuses = withEnds(pod, pod.Spec.Containers, base.ContainerStatuses, ours.ContainerStatuses)
}

func withEnds(pod *v1.Pod, spec []v1.Container, base, ours []v1.ContainerStatus) []v1.ContainerStatus {
	copied := false
	for i := range ours {
		shown := statusOf(base, i, ours[i].Name)
		if ours[i].State.Terminated != nil || shown == nil || shown.State.Terminated == nil {
			continue
		}
		if c := specOf(spec, shown.Name); c == nil || restartpolicy.OnExit(pod, c, shown.State.Terminated.ExitCode) != restartpolicy.Stay {
			continue
		}
		if !copied {
			ours, copied = slices.Clone(ours), true
		}
		ours[i] = *shown
	}
	return ours
}

// specOf finds a container of the spec by name.
func specOf(spec []v1.Container, name string) *v1.Container {
	for i := range spec {
		if spec[i].Name == name {
			return &spec[i]
		}
	}
	return nil
}
