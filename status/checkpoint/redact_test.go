package checkpoint_test

import (
	"encoding/json"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/status/checkpoint"
)

// Nothing that may be a secret is shown, and the record keeps it.
func TestRedactedShowsNoSecrets(t *testing.T) {
	const secret = "s3cret"
	get := &v1.HTTPGetAction{Path: "/?token=" + secret, HTTPHeaders: []v1.HTTPHeader{{Name: "Authorization", Value: secret}}}
	c := v1.Container{
		Name: "main", Command: []string{secret}, Args: []string{secret}, Env: []v1.EnvVar{{Name: "PASSWORD", Value: secret}},
		LivenessProbe:  &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: get}},
		ReadinessProbe: &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{secret}}}},
		Lifecycle:      &v1.Lifecycle{PreStop: &v1.LifecycleHandler{HTTPGet: get}},
	}
	pod := &v1.Pod{Spec: v1.PodSpec{
		Containers: []v1.Container{c}, InitContainers: []v1.Container{c},
		EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon(c)}},
	}}
	pod.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": secret}
	r := &checkpoint.Record{
		UID: "a", Pod: pod, Status: statusOf(v1.PodFailed, v1.ContainerStatus{
			State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Message: secret}},
		}),
		Containers: []checkpoint.Container{{Name: "main", Ends: []checkpoint.End{{Message: secret}}}},
	}
	text := func(r *checkpoint.Record) string {
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if shown := text(r.Redacted()); strings.Contains(shown, secret) || !strings.Contains(shown, "PASSWORD") {
		t.Errorf("shown: %s", shown)
	}
	if shown, err := json.Marshal(checkpoint.RedactedPod(pod)); err != nil || strings.Contains(string(shown), secret) || !strings.Contains(string(shown), "PASSWORD") {
		t.Errorf("the pod alone: %s, %v", shown, err)
	}
	if strings.Count(text(r), secret) < 20 {
		t.Error("the record itself was changed")
	}
	if (&checkpoint.Record{UID: "a"}).Redacted().UID != "a" {
		t.Error("a record without pod")
	}
}
