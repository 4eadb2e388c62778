package status

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/podinfo"
)

// maxMessages bounds the bytes of all termination messages of a pod together; its containers share
// them evenly (spec/status.md 7.5).
const maxMessages = 12288

// messageLimit returns the share of one container.
func messageLimit(pod *v1.Pod) int {
	n := len(pod.Spec.InitContainers) + len(pod.Spec.Containers) + len(pod.Spec.EphemeralContainers)
	return maxMessages / max(n, 1)
}

// normalize brings a status into the one form that is stored and sent: times in whole seconds UTC,
// messages cut, lists in their order (7.5). It writes to s and to what s points to.
func normalize(pod *v1.Pod, s *v1.PodStatus) {
	limit := messageLimit(pod)
	normalizeTime(s.StartTime)
	for i := range s.Conditions {
		normalizeTime(&s.Conditions[i].LastProbeTime)
		normalizeTime(&s.Conditions[i].LastTransitionTime)
	}
	for _, list := range [...][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			normalizeState(&list[i].State, limit)
			normalizeState(&list[i].LastTerminationState, limit)
		}
	}
	sortByName(s.ContainerStatuses)
	sortByName(s.EphemeralContainerStatuses)
	sortBySpec(pod.Spec.InitContainers, s.InitContainerStatuses)
}

func normalizeState(state *v1.ContainerState, limit int) {
	if state.Running != nil {
		normalizeTime(&state.Running.StartedAt)
	}
	if t := state.Terminated; t != nil {
		normalizeTime(&t.StartedAt)
		normalizeTime(&t.FinishedAt)
		t.Message = podinfo.Cut(t.Message, limit)
	}
}

func normalizeTime(t *metav1.Time) {
	if t != nil {
		t.Time = wholeSeconds(t.Time)
	}
}

// sortBySpec sorts init statuses into the order of the spec; those that the spec does not have go last.
func sortBySpec(spec []v1.Container, list []v1.ContainerStatus) {
	index := func(name string) int {
		for i := range spec {
			if spec[i].Name == name {
				return i
			}
		}
		return len(spec)
	}
	sorted := len(list) <= len(spec)
	for i := 0; sorted && i < len(list); i++ {
		sorted = spec[i].Name == list[i].Name
	}
	if !sorted {
		slices.SortStableFunc(list, func(a, b v1.ContainerStatus) int { return index(a.Name) - index(b.Name) })
	}
}
