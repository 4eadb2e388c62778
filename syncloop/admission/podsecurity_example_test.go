package admission_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

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
