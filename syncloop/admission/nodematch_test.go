package admission_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/syncloop/admission"
)

func affinity(terms ...v1.NodeSelectorTerm) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: terms},
		}}
	}
}

func term(key string, op v1.NodeSelectorOperator, values ...string) v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
}

func byName(op v1.NodeSelectorOperator, name string) v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: op, Values: []string{name}}}}
}

func selector(key, value string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{key: value} }
}

// TestNodeMatchComparesLabels: FD2. A pod runs only where its selector and one term of its
// required affinity are met. Unknown labels are not compared, but are named.
func TestNodeMatchComparesLabels(t *testing.T) {
	known := admission.Node{Name: "n1", OS: "linux", Arch: "arm64", Labels: map[string]string{"disk": "ssd", "cores": "8"}}
	unknown := known
	unknown.Labels = nil
	empty := known
	empty.Labels = map[string]string{}
	for name, test := range map[string]struct {
		node admission.Node
		edit func(*v1.Pod)
		want string // part of the message, "" if it is admitted
	}{
		"selector met":               {known, selector("disk", "ssd"), ""},
		"selector of another value":  {known, selector("disk", "hdd"), "nodeSelector wants disk=hdd, the node has disk=ssd"},
		"selector of another label":  {known, selector("zone", "a"), "no such label"},
		"selector, no labels":        {empty, selector("disk", "ssd"), "no such label"},
		"selector, unknown labels":   {unknown, selector("disk", "ssd"), ""},
		"host name":                  {unknown, selector(v1.LabelHostname, "n1"), ""},
		"another host name":          {unknown, selector(v1.LabelHostname, "n2"), "kubernetes.io/hostname=n2"},
		"another architecture":       {unknown, selector(v1.LabelArchStable, "amd64"), "kubernetes.io/arch=amd64"},
		"affinity met":               {known, affinity(term("disk", v1.NodeSelectorOpIn, "hdd", "ssd")), ""},
		"one term of two":            {known, affinity(term("disk", v1.NodeSelectorOpIn, "hdd"), term("zone", v1.NodeSelectorOpDoesNotExist)), ""},
		"no term":                    {known, affinity(term("disk", v1.NodeSelectorOpNotIn, "ssd"), term("zone", v1.NodeSelectorOpExists)), "zone Exists [] is not met"},
		"greater":                    {known, affinity(term("cores", v1.NodeSelectorOpGt, "4")), ""},
		"not greater":                {known, affinity(term("cores", v1.NodeSelectorOpGt, "8")), "cores Gt [8] is not met"},
		"not less":                   {known, affinity(term("cores", v1.NodeSelectorOpLt, "8")), "cores Lt [8] is not met"},
		"unknown operator":           {known, affinity(term("cores", "Near", "8")), "unknown"},
		"a bad number":               {known, affinity(term("cores", v1.NodeSelectorOpGt, "x")), "must be an integer"},
		"an empty term":              {known, affinity(v1.NodeSelectorTerm{}), "never met"},
		"no terms":                   {known, affinity(), "never met"},
		"affinity, unknown labels":   {unknown, affinity(term("disk", v1.NodeSelectorOpIn, "hdd")), ""},
		"affinity, another OS":       {unknown, affinity(term(v1.LabelOSStable, v1.NodeSelectorOpIn, "windows")), "kubernetes.io/os"},
		"this name":                  {known, affinity(byName(v1.NodeSelectorOpIn, "n1")), ""},
		"not this name":              {known, affinity(byName(v1.NodeSelectorOpNotIn, "n1")), "metadata.name"},
		"another name":               {known, affinity(byName(v1.NodeSelectorOpIn, "n2")), "metadata.name"},
		"another field":              {known, affinity(v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{{Key: "spec.x", Operator: v1.NodeSelectorOpIn, Values: []string{"a"}}}}), "metadata.name only"},
		"fields, another operator":   {known, affinity(byName(v1.NodeSelectorOpDoesNotExist, "n2")), "In and NotIn only"},
		"fields, no operator":        {known, affinity(byName("", "n2")), "In and NotIn only"},
		"a label called like it":     {known, affinity(term("metadata.name", v1.NodeSelectorOpExists)), "metadata.name Exists [] is not met"},
		"preferred affinity is soft": {known, func(p *v1.Pod) { p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{}} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := admission.NodeMatch(test.node).Admit(admission.Request{Pod: pod("a", test.edit)})
			if v.Admitted() != (test.want == "") || !strings.Contains(v.Message, test.want) || !v.Admitted() && v.Reason != "NodeAffinity" {
				t.Errorf("%+v", v)
			}
		})
	}
	p := pod("a", selector("disk", "ssd"), affinity(term("zone", v1.NodeSelectorOpExists), term(v1.LabelOSStable, v1.NodeSelectorOpExists)))
	if got := strings.Join(unknown.UnknownLabels(p), " "); got != "disk zone" {
		t.Error(got)
	}
	if got := known.UnknownLabels(p); got != nil {
		t.Error(got)
	}
}

// TestAbleRefusesWhatTheNodeCannotDo: FD2. Each ability decides on its own.
func TestAbleRefusesWhatTheNodeCannotDo(t *testing.T) {
	all := admission.Abilities{StrictGroups: func() bool { return true }, AppArmor: true, HTTP2: true, GRPCTLS: true}
	volume := func(s v1.VolumeSource) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: s}} }
	}
	item := []v1.KeyToPath{{User: ptr.To[int64](7)}}
	probe := func(h v1.ProbeHandler) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.Containers[0].StartupProbe = &v1.Probe{ProbeHandler: h} }
	}
	for name, test := range map[string]struct {
		edit   func(*v1.Pod)
		reason string
		able   bool // a node with all abilities takes it
	}{
		"claim":              {func(p *v1.Pod) { p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu"}} }, "UnexpectedAdmissionError", false},
		"claim of container": {func(p *v1.Pod) { p.Spec.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: "gpu"}} }, "UnexpectedAdmissionError", false},
		"claim of pod": {func(p *v1.Pod) {
			p.Spec.Resources = &v1.ResourceRequirements{Claims: []v1.ResourceClaim{{Name: "gpu"}}}
		}, "UnexpectedAdmissionError", false},
		"config map's user": {volume(v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{DefaultUser: ptr.To[int64](7)}}), "UnexpectedAdmissionError", false},
		"config map's item": {volume(v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{Items: item}}), "UnexpectedAdmissionError", false},
		"secret's user":     {volume(v1.VolumeSource{Secret: &v1.SecretVolumeSource{DefaultUser: ptr.To[int64](7)}}), "UnexpectedAdmissionError", false},
		"secret's item":     {volume(v1.VolumeSource{Secret: &v1.SecretVolumeSource{Items: item}}), "UnexpectedAdmissionError", false},
		"downward user":     {volume(v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{DefaultUser: ptr.To[int64](7)}}), "UnexpectedAdmissionError", false},
		"downward item": {volume(v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{
			Items: []v1.DownwardAPIVolumeFile{{User: ptr.To[int64](7)}},
		}}), "UnexpectedAdmissionError", false},
		"projected user": {volume(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{DefaultUser: ptr.To[int64](7)}}), "UnexpectedAdmissionError", false},
		"projected items": {volume(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ConfigMap: &v1.ConfigMapProjection{}}, {Secret: &v1.SecretProjection{Items: item}},
		}}}), "UnexpectedAdmissionError", false},
		"token's user": {volume(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{User: ptr.To[int64](7)}},
		}}}), "UnexpectedAdmissionError", false},
		"trust bundle's user": {volume(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{User: ptr.To[int64](7)}},
		}}}), "UnexpectedAdmissionError", false},
		"certificate's user": {volume(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{PodCertificate: &v1.PodCertificateProjection{User: ptr.To[int64](7)}},
		}}}), "UnexpectedAdmissionError", false},
		"strict groups": {func(p *v1.Pod) {
			p.Spec.SecurityContext = &v1.PodSecurityContext{SupplementalGroupsPolicy: ptr.To(v1.SupplementalGroupsPolicyStrict)}
		}, "SupplementalGroupsPolicyNotSupported", true},
		"AppArmor of the pod": {func(p *v1.Pod) {
			p.Spec.SecurityContext = &v1.PodSecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}}
		}, "AppArmor", true},
		"AppArmor": {func(p *v1.Pod) {
			p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost}}
		}, "AppArmor", true},
		"HTTP/2":        {probe(v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Protocol: ptr.To(v1.HTTPProtocolHTTP2)}}), "UnexpectedAdmissionError", true},
		"gRPC over TLS": {probe(v1.ProbeHandler{GRPC: &v1.GRPCAction{Mode: ptr.To(v1.GRPCProbeModeTLS)}}), "UnexpectedAdmissionError", true},
		"an unconfined AppArmor profile, merged groups, HTTP/1": {func(p *v1.Pod) {
			p.Spec.SecurityContext = &v1.PodSecurityContext{
				AppArmorProfile:          &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined},
				SupplementalGroupsPolicy: ptr.To(v1.SupplementalGroupsPolicyMerge),
			}
			probe(v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Protocol: ptr.To(v1.HTTPProtocolHTTP1)}})(p)
		}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			request := admission.Request{Pod: pod("a", test.edit)}
			if v := admission.Able(admission.Abilities{}).Admit(request); v.Reason != test.reason {
				t.Errorf("a node without abilities: %+v", v)
			}
			if v := admission.Able(all).Admit(request); v.Admitted() != test.able {
				t.Errorf("a node with all abilities: %+v", v)
			}
		})
	}
}

// TestScarceIsWhatNodesHaveOnlyIfTheySaySo: FD2. GPUs and huge pages are counted even where CPU
// and memory are not.
func TestScarceIsWhatNodesHaveOnlyIfTheySaySo(t *testing.T) {
	h := admission.Scarce(func() v1.ResourceList { return list("cpu", "1", "nvidia.com/gpu", "2", "hugepages-2Mi", "4Mi") })
	holder := pod("holder", requests("nvidia.com/gpu", "1"))
	for name, test := range map[string]struct {
		edit   func(*v1.Pod)
		reason string
	}{
		"more CPU than there is": {requests("cpu", "100", "memory", "1Ti", "ephemeral-storage", "1Ti"), ""},
		"a GPU":                  {requests("nvidia.com/gpu", "1"), ""},
		"a GPU too many":         {requests("nvidia.com/gpu", "2"), "OutOfnvidia.com/gpu"},
		"another device":         {requests("example.com/fpga", "1"), "OutOfexample.com/fpga"},
		"no device":              {requests("example.com/fpga", "0"), ""},
		"huge pages":             {requests("hugepages-2Mi", "4Mi"), ""},
		"too many huge pages":    {requests("hugepages-2Mi", "6Mi"), "OutOfhugepages-2Mi"},
		"other huge pages":       {requests("hugepages-1Gi", "1Gi"), "OutOfhugepages-1Gi"},
		"a name without meaning": {requests("gpu", "1"), "OutOfgpu"},
	} {
		t.Run(name, func(t *testing.T) {
			v := h.Admit(admission.Request{Pod: pod("a", test.edit), Others: func(yield func(*v1.Pod) bool) { yield(holder) }})
			if v.Reason != test.reason || !v.Admitted() && !strings.Contains(v.Message, "Node didn't have enough resource: "+strings.TrimPrefix(test.reason, "OutOf")) {
				t.Errorf("%+v", v)
			}
		})
	}
}
