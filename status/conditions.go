package status

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/restartpolicy"
)

// Reasons of the conditions the engine owns.
const (
	reasonUnknownStatuses = "UnknownContainerStatuses"
	reasonNotInitialized  = "ContainersNotInitialized"
	reasonNotReady        = "ContainersNotReady"
	reasonGatesNotReady   = "ReadinessGatesNotReady"
	reasonPodCompleted    = "PodCompleted"
	reasonPodFailed       = "PodFailed"
)

// owned reports whether only the engine writes this condition (spec/status.md 5.1).
func owned(t v1.PodConditionType) bool {
	switch t {
	case v1.PodScheduled, v1.PodInitialized, v1.ContainersReady, v1.PodReady, v1.PodReadyToStartContainers,
		v1.PodResizePending, v1.PodResizeInProgress, v1.AllContainersRestarting:
		return true
	}
	return false
}

// ownedOrShared is owned, plus the condition that the engine shares with others.
func ownedOrShared(t v1.PodConditionType) bool { return t == v1.DisruptionTarget || owned(t) }

// isResize reports whether resize admission keeps this condition's times and
// generation itself (5.6).
func isResize(t v1.PodConditionType) bool {
	return t == v1.PodResizePending || t == v1.PodResizeInProgress
}

// conditions assembles all conditions in their fixed order (5.2). disruption is the
// DisruptionTarget condition, or nil.
func (g *generator) conditions(s *v1.PodStatus, disruption *v1.PodCondition) []v1.PodCondition {
	out := make([]v1.PodCondition, 0, max(len(g.old.Conditions), 5)) // nearly always as many as last time
	for i := range g.pod.Status.Conditions {
		if c := &g.pod.Status.Conditions[i]; !ownedOrShared(c.Type) {
			out = append(out, *c)
		}
	}
	if !podinfo.Terminal(s.Phase) {
		for i := range g.in.Resize {
			if isResize(g.in.Resize[i].Type) {
				out = append(out, g.in.Resize[i])
			}
		}
	}
	made := len(out) // what follows gets its time and generation below (5.7, 5.8)
	if disruption != nil {
		out = append(out, *disruption)
	}
	out = append(out, v1.PodCondition{Type: v1.PodReadyToStartContainers, Status: truth(g.in.SandboxReady)}, g.initialized(s))
	ready := containersReady(&g.pod.Spec, s)
	out = append(out, podReady(&g.pod.Spec, ready, out), ready, v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue})
	if g.restart.possible {
		out = append(out, g.restart.condition(s.Phase))
	}
	now := metav1.Time{Time: wholeSeconds(g.in.Now)}
	for i := made; i < len(out); i++ {
		c := &out[i]
		c.ObservedGeneration = g.pod.Generation
		c.LastTransitionTime = transitionTime(c, conditionOf(g.old.Conditions, c.Type), now)
	}
	return out
}

// transitionTime returns when the condition took its present status value: the old time if the old
// condition already had it, otherwise now (5.7).
func transitionTime(c, old *v1.PodCondition, now metav1.Time) metav1.Time {
	if old != nil && old.Status == c.Status && !old.LastTransitionTime.IsZero() {
		return metav1.Time{Time: wholeSeconds(old.LastTransitionTime.Time)}
	}
	return now
}

// initialized returns the Initialized condition (table in 5).
func (g *generator) initialized(s *v1.PodStatus) v1.PodCondition {
	c := v1.PodCondition{Type: v1.PodInitialized, Status: v1.ConditionTrue}
	spec := g.pod.Spec.InitContainers
	if len(spec) > 0 && len(s.ContainerStatuses) == 0 && len(s.InitContainerStatuses) == 0 { // row 1
		c.Status, c.Reason = v1.ConditionFalse, reasonUnknownStatuses
		return c
	}
	var unknown, incomplete []string
	for i := range spec {
		cs := statusOf(s.InitContainerStatuses, i, spec[i].Name)
		switch {
		case cs == nil:
			unknown = append(unknown, spec[i].Name)
		case restartpolicy.IsSidecar(&spec[i]):
			if cs.Started == nil || !*cs.Started {
				incomplete = append(incomplete, spec[i].Name)
			}
		case !cs.Ready:
			incomplete = append(incomplete, spec[i].Name)
		}
	}
	switch {
	case s.Phase == v1.PodSucceeded && len(unknown) == 0: // row 2
		c.Reason = reasonPodCompleted
	case appEverRan(s): // row 3
	case len(unknown) > 0 || len(incomplete) > 0: // row 4
		if old := conditionOf(g.old.Conditions, v1.PodInitialized); old != nil && old.Status == v1.ConditionTrue {
			break
		}
		c.Status, c.Reason = v1.ConditionFalse, reasonNotInitialized
		c.Message = nameLists("unknown", unknown, "incomplete", incomplete)
	}
	return c
}

// appEverRan reports whether some app container runs or has run.
func appEverRan(s *v1.PodStatus) bool {
	for i := range s.ContainerStatuses {
		if state := &s.ContainerStatuses[i].State; state.Running != nil || state.Terminated != nil {
			return true
		}
	}
	return false
}

// containersReady returns the ContainersReady condition over app containers and sidecars (table in
// 5).
func containersReady(spec *v1.PodSpec, s *v1.PodStatus) v1.PodCondition {
	c := v1.PodCondition{Type: v1.ContainersReady, Status: v1.ConditionFalse}
	if len(s.ContainerStatuses) == 0 && len(s.InitContainerStatuses) == 0 { // row 1
		c.Reason = reasonUnknownStatuses
		return c
	}
	var unknown, unready []string
	judge := func(list []v1.ContainerStatus, at int, name string) {
		switch cs := statusOf(list, at, name); {
		case cs == nil:
			unknown = append(unknown, name)
		case !cs.Ready:
			unready = append(unready, name)
		}
	}
	for i := range spec.InitContainers {
		if restartpolicy.IsSidecar(&spec.InitContainers[i]) {
			judge(s.InitContainerStatuses, i, spec.InitContainers[i].Name)
		}
	}
	for i := range spec.Containers {
		judge(s.ContainerStatuses, i, spec.Containers[i].Name)
	}
	switch {
	case s.Phase == v1.PodSucceeded && len(unknown) == 0: // row 2
		c.Reason = reasonPodCompleted
	case s.Phase == v1.PodFailed: // row 3
		c.Reason = reasonPodFailed
	case len(unknown) > 0 || len(unready) > 0: // row 4
		c.Reason = reasonNotReady
		c.Message = nameLists("unknown", unknown, "unready", unready)
	default: // row 5
		c.Status = v1.ConditionTrue
	}
	return c
}

// podReady returns the Ready condition: the containers first, then the readiness gates among the
// conditions assembled so far (5.3).
func podReady(spec *v1.PodSpec, containers v1.PodCondition, conditions []v1.PodCondition) v1.PodCondition {
	c := v1.PodCondition{Type: v1.PodReady, Status: containers.Status, Reason: containers.Reason, Message: containers.Message}
	if c.Status != v1.ConditionTrue {
		return c
	}
	var problems []string
	for _, gate := range spec.ReadinessGates {
		switch have := conditionOf(conditions, gate.ConditionType); {
		case have == nil:
			problems = append(problems, fmt.Sprintf("readiness gate %q has no condition", gate.ConditionType))
		case have.Status != v1.ConditionTrue:
			problems = append(problems, fmt.Sprintf("readiness gate %q is not True", gate.ConditionType))
		}
	}
	if len(problems) > 0 {
		c.Status, c.Reason, c.Message = v1.ConditionFalse, reasonGatesNotReady, strings.Join(problems, ", ")
	}
	return c
}

// conditionOf finds a condition by type.
func conditionOf(conditions []v1.PodCondition, t v1.PodConditionType) *v1.PodCondition {
	for i := range conditions {
		if conditions[i].Type == t {
			return &conditions[i]
		}
	}
	return nil
}

// truth returns b as a condition status.
func truth(b bool) v1.ConditionStatus {
	if b {
		return v1.ConditionTrue
	}
	return v1.ConditionFalse
}

// nameLists describes two lists of container names, leaving empty ones out.
func nameLists(firstKind string, first []string, secondKind string, second []string) string {
	var parts []string
	if len(first) > 0 {
		parts = append(parts, fmt.Sprintf("containers with %s status: %v", firstKind, first))
	}
	if len(second) > 0 {
		parts = append(parts, fmt.Sprintf("containers with %s status: %v", secondKind, second))
	}
	return strings.Join(parts, ", ")
}
