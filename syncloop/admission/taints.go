package admission

import (
	"slices"
	"strings"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podinfo"
)

const reasonTaint = "TaintToleration"

// Taints refuses a pod of the API's source that does not tolerate a NoExecute taint of the
// node, as the kubelet does since v1.22; other effects are for schedulers. Static pods
// are not asked (SN3). taints is asked for every pod, so it may change; it must not block, and what
// it returns is not modified. Pods that were admitted are never asked to go: that is for
// those who set taints.
func Taints(taints func() []v1.Taint) Handler {
	return HandlerFunc(func(r Request) Verdict {
		if podinfo.Static(r.Pod) {
			return Verdict{}
		}
		var unmet []string
		for _, t := range taints() {
			// However short a toleration lasts, it lets the pod in.
			tolerates := func(x v1.Toleration) bool { return x.ToleratesTaint(logr.Discard(), &t, true) }
			if t.Effect == v1.TaintEffectNoExecute && !slices.ContainsFunc(r.Pod.Spec.Tolerations, tolerates) {
				unmet = append(unmet, t.ToString())
			}
		}
		if len(unmet) > 0 {
			return Refuse(reasonTaint, "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate: %s", strings.Join(unmet, ", "))
		}
		return Verdict{}
	})
}
