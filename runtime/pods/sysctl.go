package pods

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/pods/internal/criconfig"
)

// CheckSysctls reports every sysctl of the pod that it must not set on a node
// with this kernel release: one that is neither safe nor allowed, or whose
// namespace the pod shares with the node. allowed has names, or prefixes that
// end in *. It is a pure function for the admission of pods, whose reason is
// SysctlForbidden; a [Manager] passes on whatever was admitted.
func CheckSysctls(pod *v1.Pod, allowed []string, kernel string) error {
	return criconfig.CheckSysctls(pod, allowed, kernel)
}
