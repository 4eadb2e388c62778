package podinfo

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Annotations that are written on pods locally (spec/syncloop.md 3).
const (
	// AnnotationSource names the source a pod came from.
	AnnotationSource = "kubernetes.io/config.source"
	// AnnotationSeen is the RFC 3339 time, with nanoseconds, at which the pod was
	// first seen.
	AnnotationSeen = "kubernetes.io/config.seen"
	// AnnotationHash identifies the content of a static pod.
	AnnotationHash = "kubernetes.io/config.hash"
	// AnnotationMirror marks a mirror pod; its value is the static pod's
	// AnnotationHash.
	AnnotationMirror = "kubernetes.io/config.mirror"
)

// SourceAPI is the value of AnnotationSource on pods that an API server knows.
const SourceAPI = "api"

// Static reports whether the pod came from a source other than the API. A pod
// without a source is not static.
func Static(pod *v1.Pod) bool {
	source, ok := pod.Annotations[AnnotationSource]
	return ok && source != SourceAPI
}

// Mirror reports whether the pod is the API's copy of a static pod.
func Mirror(pod *v1.Pod) bool {
	_, ok := pod.Annotations[AnnotationMirror]
	return ok
}

// ConfigHash identifies the content of a static pod: its AnnotationHash, or its UID if it has none.
func ConfigHash(static *v1.Pod) string {
	if h := static.Annotations[AnnotationHash]; h != "" {
		return h
	}
	return string(static.UID)
}

// ReasonEvicted is the status reason of pods that were evicted, and of pods refused under pressure.
const ReasonEvicted = "Evicted"

// Terminal reports whether this phase is final.
func Terminal(phase v1.PodPhase) bool {
	return phase == v1.PodSucceeded || phase == v1.PodFailed
}

// Ready reports whether a status says that the pod is ready.
func Ready(status *v1.PodStatus) bool {
	for i := range status.Conditions {
		if c := &status.Conditions[i]; c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// ShowsEnd reports whether the pod object says that the pod must not run any more: it is being
// deleted, or has ended.
func ShowsEnd(pod *v1.Pod) bool {
	return pod.DeletionTimestamp != nil || Terminal(pod.Status.Phase)
}

// HasContainer reports whether the pod's spec names this container, of whatever kind.
func HasContainer(pod *v1.Pod, name string) bool {
	found := slices.ContainsFunc(pod.Spec.EphemeralContainers, func(c v1.EphemeralContainer) bool { return c.Name == name })
	each(&pod.Spec, func(c *v1.Container) { found = found || c.Name == name })
	return found
}

// FullName returns the name that may exist only once on a node.
func FullName(namespace, name string) string { return name + "_" + namespace }
