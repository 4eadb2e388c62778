package status

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/podinfo"
)

// The comparison of spec/status.md 7.4 runs at every sync of every pod, and nearly always finds
// that nothing changed. So it is written out instead of using reflection, and compares as if both
// sides were in normal form (7.5): times by the second, termination messages up to the cut. A test
// walks all fields of the API type and fails if one is neither compared nor exempted here.

// equalStatus reports whether b says the same as a. Termination messages count only up to limit
// bytes.
func equalStatus(a, b *v1.PodStatus, limit int) bool {
	return a.Phase == b.Phase && a.Reason == b.Reason && a.Message == b.Message &&
		a.ObservedGeneration == b.ObservedGeneration &&
		a.NominatedNodeName == b.NominatedNodeName &&
		a.HostIP == b.HostIP && a.PodIP == b.PodIP &&
		a.QOSClass == b.QOSClass && a.Resize == b.Resize &&
		equalTimePointers(a.StartTime, b.StartTime) &&
		slices.Equal(a.HostIPs, b.HostIPs) && slices.Equal(a.PodIPs, b.PodIPs) &&
		equalContainers(a.ContainerStatuses, b.ContainerStatuses, limit) &&
		equalContainers(a.InitContainerStatuses, b.InitContainerStatuses, limit) &&
		equalContainers(a.EphemeralContainerStatuses, b.EphemeralContainerStatuses, limit) &&
		equalConditions(a.Conditions, b.Conditions) &&
		podinfo.SameAmounts(a.AllocatedResources, b.AllocatedResources) &&
		equalResources(a.Resources, b.Resources) &&
		(len(a.VolumeHealth) == 0 && len(b.VolumeHealth) == 0 || equality.Semantic.DeepEqual(a.VolumeHealth, b.VolumeHealth))
}

// equalConditions compares the conditions that the engine owns or shares, by status, reason and
// message; those of others do not count.
func equalConditions(a, b []v1.PodCondition) bool {
	count := 0
	for i := range a {
		if !ownedOrShared(a[i].Type) {
			continue
		}
		count++
		other := conditionAt(b, i, a[i].Type)
		if other == nil || other.Status != a[i].Status || other.Reason != a[i].Reason || other.Message != a[i].Message {
			return false
		}
		// It says which spec a verdict is about; that of all others follows the status.
		if isResize(a[i].Type) && other.ObservedGeneration != a[i].ObservedGeneration {
			return false
		}
	}
	for i := range b {
		if ownedOrShared(b[i].Type) {
			count--
		}
	}
	return count == 0
}

// conditionAt is conditionOf with a guess at the position.
func conditionAt(conditions []v1.PodCondition, at int, t v1.PodConditionType) *v1.PodCondition {
	if at < len(conditions) && conditions[at].Type == t {
		return &conditions[at]
	}
	return conditionOf(conditions, t)
}

func equalContainers(a, b []v1.ContainerStatus, limit int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !equalContainer(&a[i], &b[i], limit) {
			return false
		}
	}
	return true
}

func equalContainer(a, b *v1.ContainerStatus, limit int) bool {
	return a.Name == b.Name && a.Ready == b.Ready && a.RestartCount == b.RestartCount &&
		a.ContainerID == b.ContainerID && a.Image == b.Image && a.ImageID == b.ImageID &&
		equalPointers(a.Started, b.Started) &&
		equalState(&a.State, &b.State, limit) &&
		equalState(&a.LastTerminationState, &b.LastTerminationState, limit) &&
		podinfo.SameAmounts(a.AllocatedResources, b.AllocatedResources) &&
		equalResources(a.Resources, b.Resources) &&
		slices.EqualFunc(a.VolumeMounts, b.VolumeMounts, equalMount) &&
		equalPointers(a.StopSignal, b.StopSignal) &&
		(a.User == nil && b.User == nil || equality.Semantic.DeepEqual(a.User, b.User)) &&
		(len(a.AllocatedResourcesStatus) == 0 && len(b.AllocatedResourcesStatus) == 0 ||
			equality.Semantic.DeepEqual(a.AllocatedResourcesStatus, b.AllocatedResourcesStatus))
}

func equalState(a, b *v1.ContainerState, limit int) bool {
	if (a.Waiting == nil) != (b.Waiting == nil) || (a.Running == nil) != (b.Running == nil) || (a.Terminated == nil) != (b.Terminated == nil) {
		return false
	}
	if a.Waiting != nil && *a.Waiting != *b.Waiting {
		return false
	}
	if a.Running != nil && !equalTimes(a.Running.StartedAt, b.Running.StartedAt) {
		return false
	}
	if a.Terminated == nil || a.Terminated == b.Terminated {
		return true
	}
	x, y := a.Terminated, b.Terminated
	return x.ExitCode == y.ExitCode && x.Signal == y.Signal && x.Reason == y.Reason && x.ContainerID == y.ContainerID &&
		podinfo.Cut(x.Message, limit) == podinfo.Cut(y.Message, limit) &&
		equalTimes(x.StartedAt, y.StartedAt) && equalTimes(x.FinishedAt, y.FinishedAt)
}

func equalMount(a, b v1.VolumeMountStatus) bool {
	return a.Name == b.Name && a.MountPath == b.MountPath && a.ReadOnly == b.ReadOnly &&
		equalPointers(a.RecursiveReadOnly, b.RecursiveReadOnly) &&
		(a.VolumeStatus == nil && b.VolumeStatus == nil || equality.Semantic.DeepEqual(a.VolumeStatus, b.VolumeStatus))
}

func equalResources(a, b *v1.ResourceRequirements) bool {
	if a == nil || b == nil || a == b {
		return a == b
	}
	return podinfo.SameAmounts(a.Requests, b.Requests) && podinfo.SameAmounts(a.Limits, b.Limits) && slices.Equal(a.Claims, b.Claims)
}

func equalPointers[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

func equalTimePointers(a, b *metav1.Time) bool {
	return a == b || a != nil && b != nil && equalTimes(*a, *b)
}

// equalTimes compares by the second: the API has no finer times.
func equalTimes(a, b metav1.Time) bool {
	return a.Equal(&b) || a.Truncate(time.Second).Equal(b.Truncate(time.Second))
}
