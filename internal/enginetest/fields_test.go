package enginetest_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
)

// onlyNode makes a pod ask for a node with a label.
func onlyNode(key, value string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{key: value} }
}

func requestsOf(name, amount string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		list := v1.ResourceList{v1.ResourceName(name): resource.MustParse(amount)}
		p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: list, Limits: list}
	}
}

func strictGroups(p *v1.Pod) {
	p.Spec.SecurityContext = &v1.PodSecurityContext{SupplementalGroupsPolicy: ptr.To(v1.SupplementalGroupsPolicyStrict)}
}

// TestPodsNeverRunWithoutWhatTheyAskFor: FD2. What the node cannot give is refused with the
// kubelet's reason, and nothing of the pod is made; where the node has it the pod runs.
func TestPodsNeverRunWithoutWhatTheyAskFor(t *testing.T) {
	labels := func(c *podwright.Config) { c.Node.Labels = map[string]string{"disk": "ssd"} }
	for name, test := range map[string]struct {
		configure func(*podwright.Config)
		features  *runtimeapi.RuntimeFeatures
		edit      func(*v1.Pod)
		reason    string
		event     string
	}{
		"claim": {edit: func(p *v1.Pod) {
			p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To("x")}}
		}, reason: "UnexpectedAdmissionError"},
		"device": {edit: requestsOf("nvidia.com/gpu", "1"), reason: "OutOfnvidia.com/gpu"},
		"device that there is": {configure: func(c *podwright.Config) {
			c.Node.Allocatable = v1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		}, edit: requestsOf("nvidia.com/gpu", "1")},
		"huge pages":                  {edit: requestsOf("hugepages-16Gi", "16Gi"), reason: "OutOfhugepages-16Gi"},
		"strict groups":               {edit: strictGroups, reason: "SupplementalGroupsPolicyNotSupported"},
		"strict groups, able runtime": {features: &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true}, edit: strictGroups},
		"os":                          {edit: func(p *v1.Pod) { p.Spec.OS = &v1.PodOS{Name: v1.Windows} }, reason: "PodOSNotSupported"},
		"node":                        {edit: func(p *v1.Pod) { p.Spec.NodeName = "n2" }, reason: "NodeName"},
		"label":                       {configure: labels, edit: onlyNode("disk", "hdd"), reason: "NodeAffinity"},
		"label that there is":         {configure: labels, edit: onlyNode("disk", "ssd")},
		"label, none configured":      {edit: onlyNode("disk", "ssd"), event: "NodeLabelsUnknown"},
		"host name":                   {edit: onlyNode(v1.LabelHostname, "n2"), reason: "NodeAffinity"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := fake.New(fake.Options{Features: test.features})
				var configure []func(*podwright.Config)
				if test.configure != nil {
					configure = append(configure, test.configure)
				}
				r := newRig(t, rt, t.TempDir(), configure...).start()
				pod := newPod("asks")
				test.edit(pod)
				r.set(pod)
				if test.reason == "" {
					r.phase(pod.UID, v1.PodRunning, time.Minute)
					if test.event != "" && r.events.count("asks "+test.event) == 0 {
						t.Errorf("no event %s among %v", test.event, r.events.seen)
					}
					return
				}
				r.phase(pod.UID, v1.PodFailed, time.Minute)
				if st := r.pod(pod.UID).Status; st.Reason != test.reason || !strings.HasPrefix(st.Message, "Pod was rejected: ") || strings.Count(st.Message, "Pod was rejected") != 1 {
					t.Errorf("reason %q, message %q", st.Reason, st.Message)
				}
				if n := len(requests[*runtimeapi.RunPodSandboxRequest](rt, fake.RunPodSandbox, pod.UID)); n > 0 {
					t.Errorf("%d sandboxes were made", n)
				}
			})
		})
	}
}
