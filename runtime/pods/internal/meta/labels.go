package meta

import (
	"encoding/json"
	"maps"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime"
)

// Annotations of the kubelet that a later process needs to judge or stop a container
// without its pod's spec (spec/runtime.md 2.2).
const (
	AnnotationTerminationMessagePath = "io.kubernetes.container.terminationMessagePath"
	AnnotationTerminationPolicy      = "io.kubernetes.container.terminationMessagePolicy"
	AnnotationPreStopHandler         = "io.kubernetes.container.preStopHandler"
	AnnotationPorts                  = "io.kubernetes.container.ports"
	AnnotationPodDeletionGrace       = "io.kubernetes.pod.deletionGracePeriod"
	AnnotationPodTerminationGrace    = "io.kubernetes.pod.terminationGracePeriod"
)

// Annotations of the engine itself, besides the kubelet's (spec/runtime.md 2.7). With
// them a pod without a manifest is stopped in the right order.
const (
	AnnotationKind        = "podwright.io/container.kind"
	AnnotationIndex       = "podwright.io/container.index"
	AnnotationHashVersion = "podwright.io/container.hash-version"
	AnnotationPolicy      = "podwright.io/pod.restart-policy"
)

// Kind is what a container is in its pod.
type Kind string

// Kinds of containers.
const (
	App       Kind = "app"
	Init      Kind = "init"
	Sidecar   Kind = "sidecar"
	Ephemeral Kind = "ephemeral"
)

// SandboxLabels returns the labels of the pod's sandbox: the pod's own, overridden by
// the engine's (spec/runtime.md 2.1).
func SandboxLabels(pod *v1.Pod, owner string) map[string]string {
	labels := make(map[string]string, len(pod.Labels)+4)
	maps.Copy(labels, pod.Labels)
	identify(labels, pod, owner)
	return labels
}

// ContainerLabels returns the labels of a container: the four keys, and the
// owner if there is one.
func ContainerLabels(pod *v1.Pod, name, owner string) map[string]string {
	labels := make(map[string]string, 5)
	identify(labels, pod, owner)
	labels[runtime.LabelContainerName] = name
	return labels
}

func identify(labels map[string]string, pod *v1.Pod, owner string) {
	labels[runtime.LabelPodName] = pod.Name
	labels[runtime.LabelPodNamespace] = pod.Namespace
	labels[runtime.LabelPodUID] = string(pod.UID)
	if owner != "" {
		labels[runtime.LabelOwner] = owner
	} else {
		// A pod label must not give the sandbox an owner.
		delete(labels, runtime.LabelOwner)
	}
}

// SandboxAnnotations returns the pod's annotations, without those that are too large for a runtime's
// lists, and the folder of the engine with an owner (spec/runtime.md 2.2, 2.10, 1.10).
func SandboxAnnotations(pod *v1.Pod, rootDir string) map[string]string {
	annotations := maps.Clone(pod.Annotations)
	maps.DeleteFunc(annotations, func(key, value string) bool { return len(key)+len(value) > maxAnnotation })
	if rootDir == "" {
		// A pod must not speak for an engine.
		delete(annotations, runtime.AnnotationRootDir)
		return annotations
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[runtime.AnnotationRootDir] = rootDir
	return annotations
}

// Described is what a container's annotations are made of.
type Described struct {
	Pod          *v1.Pod
	Container    *v1.Container
	Kind         Kind
	Index        int
	RestartCount int
}

// ContainerAnnotations returns the annotations of a new container
// (spec/runtime.md 2.2, 2.7).
func ContainerAnnotations(d Described) map[string]string {
	c := d.Container
	a := map[string]string{
		runtime.AnnotationHash:           strconv.FormatUint(Hash(c), 16),
		runtime.AnnotationRestartCount:   strconv.Itoa(d.RestartCount),
		AnnotationTerminationMessagePath: TerminationPath(c),
		AnnotationTerminationPolicy:      string(terminationPolicy(c)),

		AnnotationKind:        string(d.Kind),
		AnnotationIndex:       strconv.Itoa(d.Index),
		AnnotationHashVersion: HashVersion,
		AnnotationPolicy:      string(d.Pod.Spec.RestartPolicy),
	}
	room := handlerRoom(&d.Pod.Spec)
	note := func(key string, value any) {
		if raw, err := json.Marshal(value); err == nil && len(raw) <= room {
			a[key] = string(raw)
			room -= len(raw)
		}
	}
	if len(c.Ports) > 0 {
		note(AnnotationPorts, c.Ports)
	}
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		note(AnnotationPreStopHandler, c.Lifecycle.PreStop)
	}
	if g := d.Pod.DeletionGracePeriodSeconds; g != nil {
		a[AnnotationPodDeletionGrace] = strconv.FormatInt(*g, 10)
	}
	if g := d.Pod.Spec.TerminationGracePeriodSeconds; g != nil {
		a[AnnotationPodTerminationGrace] = strconv.FormatInt(*g, 10)
	}
	return a
}

// TerminationPath returns where the container writes its termination message.
func TerminationPath(c *v1.Container) string {
	if c.TerminationMessagePath == "" {
		return v1.TerminationMessagePathDefault
	}
	return c.TerminationMessagePath
}

func terminationPolicy(c *v1.Container) v1.TerminationMessagePolicy {
	if c.TerminationMessagePolicy == "" {
		return v1.TerminationMessageReadFile
	}
	return c.TerminationMessagePolicy
}
