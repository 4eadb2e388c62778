package admission_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/syncloop/admission"
)

// Pods may mount one folder of the node, and otherwise only what the level baseline allows.
func ExamplePodSecurity() {
	security, err := admission.PodSecurity(admission.SecurityBaseline, admission.SecurityExemptions{
		HostPaths: []admission.HostPath{{Path: "/srv/models", ReadOnly: true}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := &v1.Pod{Spec: v1.PodSpec{
		HostPID:    true,
		Containers: []v1.Container{{Name: "main", VolumeMounts: []v1.VolumeMount{{Name: "models", ReadOnly: true}}}},
		Volumes:    []v1.Volume{{Name: "models", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/srv/models/small"}}}},
	}}
	verdict := security.Admit(admission.Request{Pod: pod})
	fmt.Println(verdict.Reason == admission.ReasonPodSecurity, verdict.Message)
	// Output: true violates PodSecurity "baseline": host namespaces (hostPID=true)
}

// A tenant's source may run modest pods in one namespace.
func ExampleBySource() {
	policies, err := admission.BySource(map[string]admission.SourcePolicy{
		"tenant": {Namespaces: []string{"tenant"}, HighestPriority: ptr.To[int32](1000), MaxPods: 20, Security: admission.SecurityRestricted},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := &v1.Pod{Spec: v1.PodSpec{PriorityClassName: "system-node-critical"}}
	pod.Namespace, pod.Annotations = "tenant", map[string]string{"kubernetes.io/config.source": "tenant"} // an engine sets it
	verdict := policies.Admit(admission.Request{Pod: pod})
	fmt.Println(verdict.Reason == admission.ReasonSourcePolicy, verdict.Message)
	// Output: true source "tenant" may not run pods of priority 2000001000 (class "system-node-critical"), the highest is 1000
}
