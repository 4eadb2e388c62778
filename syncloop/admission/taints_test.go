package admission_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/syncloop/admission"
)

// TestTaintsKeepPodsOfTheAPIOut: SN3. NoExecute taints count, and only for pods of an API.
func TestTaintsKeepPodsOfTheAPIOut(t *testing.T) {
	taint := func(key, value string, effect v1.TaintEffect) v1.Taint {
		return v1.Taint{Key: key, Value: value, Effect: effect}
	}
	gone, schedule := taint("gone", "yes", v1.TaintEffectNoExecute), taint("full", "", v1.TaintEffectNoSchedule)
	level := taint("level", "5", v1.TaintEffectNoExecute)
	equal := v1.Toleration{Key: "gone", Value: "yes"}
	for name, test := range map[string]struct {
		source      string
		taints      []v1.Taint
		tolerations []v1.Toleration
		want        string // part of the message, "" if it is admitted
	}{
		"no taints":              {"api", nil, nil, ""},
		"other effects":          {"api", []v1.Taint{schedule, taint("a", "", v1.TaintEffectPreferNoSchedule)}, nil, ""},
		"not tolerated":          {"api", []v1.Taint{schedule, gone}, nil, "gone=yes:NoExecute"},
		"static":                 {"file", []v1.Taint{gone}, nil, ""},
		"equal":                  {"api", []v1.Taint{gone}, []v1.Toleration{equal}, ""},
		"equal, named":           {"api", []v1.Taint{gone}, []v1.Toleration{{Key: "gone", Operator: v1.TolerationOpEqual, Value: "yes"}}, ""},
		"another value":          {"api", []v1.Taint{gone}, []v1.Toleration{{Key: "gone", Value: "no"}}, "gone=yes:NoExecute"},
		"another effect":         {"api", []v1.Taint{gone}, []v1.Toleration{{Key: "gone", Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule}}, "gone=yes:NoExecute"},
		"exists":                 {"api", []v1.Taint{gone}, []v1.Toleration{{Key: "gone", Operator: v1.TolerationOpExists}}, ""},
		"everything":             {"api", []v1.Taint{gone, level}, []v1.Toleration{{Operator: v1.TolerationOpExists}}, ""},
		"everything, not to run": {"api", []v1.Taint{gone}, []v1.Toleration{{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule}}, "gone=yes:NoExecute"},
		"for a while":            {"api", []v1.Taint{gone}, []v1.Toleration{{Key: "gone", Operator: v1.TolerationOpExists, TolerationSeconds: ptr.To[int64](0)}}, ""},
		"one of two":             {"api", []v1.Taint{gone, level}, []v1.Toleration{equal}, "level=5:NoExecute"},
		"above":                  {"api", []v1.Taint{level}, []v1.Toleration{{Key: "level", Operator: v1.TolerationOpGt, Value: "4"}}, ""},
		"not above":              {"api", []v1.Taint{level}, []v1.Toleration{{Key: "level", Operator: v1.TolerationOpGt, Value: "5"}}, "level=5:NoExecute"},
		"unknown operator":       {"api", []v1.Taint{gone}, []v1.Toleration{{Key: "gone", Operator: "Like", Value: "yes"}}, "gone=yes:NoExecute"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{}
			pod.Annotations = map[string]string{"kubernetes.io/config.source": test.source}
			pod.Spec.Tolerations = test.tolerations
			v := admission.Taints(func() []v1.Taint { return test.taints }).Admit(admission.Request{Pod: pod})
			switch {
			case test.want == "" && !v.Admitted():
				t.Errorf("refused: %s", v.Message)
			case test.want != "" && (v.Admitted() || v.Reason != "TaintToleration" || !strings.HasSuffix(v.Message, ": "+test.want)):
				t.Errorf("verdict %+v", v)
			}
		})
	}
}
