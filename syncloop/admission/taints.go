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
// are exempt (SN3). Taints calls taints for every pod, so the result may change; taints must not
// block, and its result is not modified. Admitted pods stay: evicting them is up to whoever
// sets taints.
func Taints(taints func() []v1.Taint) Handler {
	return HandlerFunc(func(r Request) Verdict {
		if podinfo.Static(r.Pod) {
			return Verdict{}
		}
		var unmet []string
		for _, t := range taints() {
			// A toleration admits the pod, however short it lasts.
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
