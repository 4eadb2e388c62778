package meta

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// A runtime answers a list with one message of at most 16 MiB, which holds the labels and
// annotations of everything there is. Without bounds one pod could fill it, and then no pod could be
// seen any more (spec/runtime.md 2.10).
const (
	// maxAnnotation is how large an annotation of a pod may be for its sandbox to get it.
	maxAnnotation = 4 << 10
	// maxSandbox is how large the labels and annotations of a sandbox may be together.
	maxSandbox = 64 << 10
	// maxHandlers bounds the hooks and ports in the annotations of a pod's containers together.
	maxHandlers = 32 << 10
	// maxContainers is how many containers a pod may have: each takes one or two KiB, and so does
	// each of its containers that has ended.
	maxContainers = 1000
)

// CheckSize refuses a pod that would leave too little room for others, by the labels and annotations
// of its sandbox and its containers.
func CheckSize(spec *v1.PodSpec, labels, annotations map[string]string) error {
	if n := len(spec.InitContainers) + len(spec.Containers) + len(spec.EphemeralContainers); n > maxContainers {
		return fmt.Errorf("the pod has %d containers, want %d at most", n, maxContainers)
	}
	size := 0
	for _, all := range []map[string]string{labels, annotations} {
		for key, value := range all {
			size += len(key) + len(value)
		}
	}
	if size > maxSandbox {
		return fmt.Errorf("the pod's labels and annotations (those above %d bytes left out) have %d bytes, and a runtime keeps %d for all pods to be listed: make them fewer or shorter",
			maxAnnotation, size, maxSandbox)
	}
	return nil
}

// handlerRoom is how large the hook and the ports in one container's annotations may be together.
func handlerRoom(spec *v1.PodSpec) int {
	return maxHandlers / max(1, len(spec.InitContainers)+len(spec.Containers))
}
