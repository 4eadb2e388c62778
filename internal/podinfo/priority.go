package podinfo

import v1 "k8s.io/api/core/v1"

// The system's priority classes and the lowest priorities they stand for.
const (
	nodeCriticalClass    = "system-node-critical"
	clusterCriticalClass = "system-cluster-critical"

	systemCritical = 2_000_000_000
	nodeCritical   = 2_000_001_000
)

// Critical reports whether the pod has a system-critical priority. A resolved priority decides; the
// class name counts only where no API server has resolved it. A static pod is judged like any
// other, because without an API server all pods are static.
func Critical(pod *v1.Pod) bool {
	if pod.Spec.Priority != nil {
		return *pod.Spec.Priority >= systemCritical
	}
	return pod.Spec.PriorityClassName == nodeCriticalClass || pod.Spec.PriorityClassName == clusterCriticalClass
}

// NodeCritical reports whether the node itself needs the pod: it has the higher of the two
// system-critical levels. A resolved priority decides here too.
func NodeCritical(pod *v1.Pod) bool {
	if pod.Spec.Priority != nil {
		return *pod.Spec.Priority >= nodeCritical
	}
	return pod.Spec.PriorityClassName == nodeCriticalClass
}

// Priority returns the pod's priority, 0 if it has none. See [ClaimedPriority].
func Priority(pod *v1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// ClaimedPriority returns the pod's priority, or that of the system-critical class it names.
func ClaimedPriority(pod *v1.Pod) int32 {
	switch {
	case pod.Spec.Priority != nil:
		return *pod.Spec.Priority
	case NodeCritical(pod):
		return nodeCritical
	case Critical(pod):
		return systemCritical
	}
	return 0
}
