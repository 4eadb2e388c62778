package criconfig

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime/pods/internal/cgroupname"
)

// CgroupParent returns the path of the pod's control group below the mount of the
// hierarchy (spec/runtime.md 3.3); empty if pods get no groups of their own. The
// UID must have been checked to be one path element.
func CgroupParent(pod *v1.Pod, node Node) string {
	if !node.PodCgroups {
		return ""
	}
	level, err := cgroupname.LevelOf(podinfo.QoS(pod))
	if err != nil {
		return ""
	}
	parent := strings.FieldsFunc(node.CgroupRoot, func(r rune) bool { return r == '/' })
	scheme := cgroupname.Scheme{Parent: append(parent, cgroupname.Pods), Systemd: node.SystemdCgroups}
	return "/" + scheme.Pod(level, pod.UID)
}
