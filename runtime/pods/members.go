package pods

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/restartpolicy"
	"github.com/podwright/podwright/runtime/pods/internal/meta"
)

// member is a container of a pod with its place in the spec.
type member struct {
	spec  *v1.Container
	kind  meta.Kind
	index int
	// target is the container an ephemeral container looks into, if any.
	target string
}

// containersOf lists all containers of a pod.
func containersOf(pod *v1.Pod) []member {
	n := len(pod.Spec.InitContainers) + len(pod.Spec.Containers) + len(pod.Spec.EphemeralContainers)
	out := make([]member, 0, n)
	for i := range pod.Spec.InitContainers {
		out = append(out, initMember(pod, i))
	}
	for i := range pod.Spec.Containers {
		out = append(out, appMember(pod, i))
	}
	for i := range pod.Spec.EphemeralContainers {
		out = append(out, ephemeralMember(pod, i))
	}
	return out
}

func appMember(pod *v1.Pod, i int) member {
	return member{spec: &pod.Spec.Containers[i], kind: meta.App, index: i}
}

func initMember(pod *v1.Pod, i int) member {
	kind := meta.Init
	if restartpolicy.IsSidecar(&pod.Spec.InitContainers[i]) {
		kind = meta.Sidecar
	}
	return member{spec: &pod.Spec.InitContainers[i], kind: kind, index: i}
}

func ephemeralMember(pod *v1.Pod, i int) member {
	e := &pod.Spec.EphemeralContainers[i]
	return member{
		spec: (*v1.Container)(&e.EphemeralContainerCommon), kind: meta.Ephemeral, index: i,
		target: e.TargetContainerName,
	}
}

// hasSidecar reports whether the pod has a restartable init container.
func hasSidecar(pod *v1.Pod) bool {
	for i := range pod.Spec.InitContainers {
		if restartpolicy.IsSidecar(&pod.Spec.InitContainers[i]) {
			return true
		}
	}
	return false
}

// memberNamed finds a container by name.
func memberNamed(pod *v1.Pod, name string) (member, bool) {
	for _, c := range containersOf(pod) {
		if c.spec.Name == name {
			return c, true
		}
	}
	return member{}, false
}

// fieldPath names the container in events (spec/runtime.md 22.3).
func (c member) fieldPath() string {
	list := "containers"
	switch c.kind {
	case meta.Init, meta.Sidecar:
		list = "initContainers"
	case meta.Ephemeral:
		list = "ephemeralContainers"
	}
	return fmt.Sprintf("spec.%s{%s}", list, c.spec.Name)
}

// podRef is the object of a pod's events.
func podRef(pod *v1.Pod) *v1.ObjectReference {
	return &v1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name,
		UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}
}

// containerRef is the object of a container's events.
func containerRef(pod *v1.Pod, c member) *v1.ObjectReference {
	ref := podRef(pod)
	ref.FieldPath = c.fieldPath()
	return ref
}
