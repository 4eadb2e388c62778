package status

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/podinfo"
)

// merged is a status ready to be sent.
type merged struct {
	status *v1.PodStatus
	// held is set if the terminal phase was held back.
	held bool
}

// merge puts our status on top of what a sink has (spec/status.md 8.4). base is what the sink has.
// If others is true, as for an API that others write to, their conditions and fields are taken from
// base. couldRun says that a container of the pod may still run. The result shares memory with
// both.
func merge(base, ours *v1.PodStatus, others, couldRun bool, now metav1.Time) merged {
	out := *ours
	ending := !podinfo.Terminal(base.Phase) && podinfo.Terminal(ours.Phase)
	held := ending && (couldRun || anyRunning(ours))
	if held {
		out.Phase, out.Reason, out.Message = base.Phase, base.Reason, base.Message
		if out.Phase == "" {
			out.Phase = v1.PodPending
		}
		if out.Phase == v1.PodPending && hasRun(ours) {
			// What the sink has, or what is remembered of it, is from before the container ran.
			out.Phase = v1.PodRunning
		}
	}
	out.Conditions = mergeConditions(base, ours, others, ending && !held, now)
	if others {
		if podinfo.Terminal(base.Phase) {
			// A pod finished at the API stays finished in that same phase (2.4).
			out.Phase = base.Phase
			if ours.Phase != base.Phase {
				out.Reason, out.Message = base.Reason, base.Message
			}
		}
		out.NominatedNodeName = base.NominatedNodeName
		out.ResourceClaimStatuses = base.ResourceClaimStatuses
		out.ExtendedResourceClaimStatus = base.ExtendedResourceClaimStatus
		out.NodeAllocatableResourceClaimStatuses = base.NodeAllocatableResourceClaimStatuses
	}
	if podinfo.Terminal(out.Phase) {
		unready(&out, now)
	}
	if slices.Equal(out.Conditions, ours.Conditions) {
		out.Conditions = ours.Conditions // the usual case: one copy less per pod
	}
	return merged{status: &out, held: held}
}

// mergeConditions lists others' conditions first, then ours. DisruptionTarget is added only in the
// update that ends the pod.
func mergeConditions(base, ours *v1.PodStatus, others, ending bool, now metav1.Time) []v1.PodCondition {
	source := ours.Conditions
	if others {
		source = base.Conditions
	}
	out := make([]v1.PodCondition, 0, len(source)+len(ours.Conditions))
	for i := range source {
		if !ownedOrShared(source[i].Type) {
			out = append(out, source[i])
		}
	}
	disruption := conditionOf(base.Conditions, v1.DisruptionTarget)
	if fresh := conditionOf(ours.Conditions, v1.DisruptionTarget); fresh != nil && ending {
		c := *fresh
		c.LastTransitionTime = now
		disruption = &c
	}
	if disruption != nil {
		out = append(out, *disruption)
	}
	for i := range ours.Conditions {
		if owned(ours.Conditions[i].Type) {
			out = append(out, ours.Conditions[i])
		}
	}
	return out
}

// unready sets Ready and ContainersReady to False for a terminal phase (8.5). It writes to the
// conditions of s.
func unready(s *v1.PodStatus, now metav1.Time) {
	reason := reasonPodCompleted
	if s.Phase == v1.PodFailed {
		reason = reasonPodFailed
	}
	for i := range s.Conditions {
		c := &s.Conditions[i]
		if (c.Type == v1.PodReady || c.Type == v1.ContainersReady) && c.Status == v1.ConditionTrue {
			c.Status, c.Reason, c.Message, c.LastTransitionTime = v1.ConditionFalse, reason, "", now
		}
	}
}

// hasRun reports whether an app container is running or has run.
func hasRun(s *v1.PodStatus) bool {
	return slices.ContainsFunc(s.ContainerStatuses, func(c v1.ContainerStatus) bool {
		return c.State.Running != nil || c.LastTerminationState.Terminated != nil || c.State.Terminated != nil && c.ContainerID != ""
	})
}

// anyRunning reports whether any container is running.
func anyRunning(s *v1.PodStatus) bool {
	for _, list := range [...][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].State.Running != nil {
				return true
			}
		}
	}
	return false
}
