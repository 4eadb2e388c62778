package criconfig

import (
	"path"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// podsCgroup is the group of all pods below the node's root.
const podsCgroup = "kubepods"

// CgroupParent returns the path of the pod's control group below the mount of the
// hierarchy (spec/runtime.md 3.3); empty if pods get no groups of their own. The
// UID must have been checked to be one path element.
func CgroupParent(pod *v1.Pod, node Node) string {
	if !node.PodCgroups {
		return ""
	}
	parts := append(strings.FieldsFunc(node.CgroupRoot, func(r rune) bool { return r == '/' }), podsCgroup)
	switch QoS(pod) {
	case v1.PodQOSBurstable:
		parts = append(parts, "burstable")
	case v1.PodQOSBestEffort:
		parts = append(parts, "besteffort")
	}
	parts = append(parts, "pod"+string(pod.UID))
	if !node.SystemdCgroups {
		return "/" + path.Join(parts...)
	}
	// A slice is named after all slices it is in, and lies in them.
	name, full := "", ""
	for _, part := range parts {
		if name != "" {
			name += "-"
		}
		name += strings.ReplaceAll(part, "-", "_")
		full += "/" + name + ".slice"
	}
	return full
}
