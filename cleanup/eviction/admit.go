package eviction

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podinfo"
)

// admit judges a new pod by the conditions of its node (section 16). A critical pod is always
// admitted. If memory pressure is the only condition, it keeps out only BestEffort pods that do not
// tolerate it. message says why a pod is refused.
func admit(pressure []v1.NodeConditionType, pod *v1.Pod, critical bool) (admitted bool, message string) {
	if len(pressure) == 0 || critical {
		return true, ""
	}
	if len(pressure) == 1 && pressure[0] == v1.NodeMemoryPressure {
		if podinfo.QoS(pod) != v1.PodQOSBestEffort || slices.ContainsFunc(pod.Spec.Tolerations, toleratesMemoryPressure) {
			return true, ""
		}
	}
	names := make([]string, len(pressure))
	for i, c := range pressure {
		names[i] = string(c)
	}
	return false, fmt.Sprintf("The node had condition: [%s].", strings.Join(names, " "))
}

// toleratesMemoryPressure reports whether a toleration matches the taint of a node under memory
// pressure.
func toleratesMemoryPressure(t v1.Toleration) bool {
	if t.Effect != "" && t.Effect != v1.TaintEffectNoSchedule {
		return false
	}
	switch t.Operator {
	case v1.TolerationOpExists:
		return t.Key == "" || t.Key == v1.TaintNodeMemoryPressure
	case v1.TolerationOpEqual, "":
		return t.Key == v1.TaintNodeMemoryPressure && t.Value == ""
	}
	return false
}
