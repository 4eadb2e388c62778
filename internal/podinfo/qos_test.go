package podinfo

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestQoS: spec/runtime.md 13.2, 13.3.
func TestQoS(t *testing.T) {
	type rr = v1.ResourceRequirements
	for _, test := range []struct {
		name      string
		resources []rr
		init      []rr
		pod       *rr
		want      v1.PodQOSClass
	}{
		{name: "nothing", resources: []rr{{}}, want: v1.PodQOSBestEffort},
		{name: "zero does not count", resources: []rr{{Requests: list("0", "0")}}, want: v1.PodQOSBestEffort},
		{name: "a limit of zero does not count", resources: []rr{{Limits: list("0", "0")}}, want: v1.PodQOSBestEffort},
		{name: "equal", resources: []rr{{Requests: list("1", "1Gi"), Limits: list("1000m", "1024Mi")}}, want: v1.PodQOSGuaranteed},
		{name: "limits alone", resources: []rr{{Limits: list("1", "1Gi")}}, want: v1.PodQOSGuaranteed},
		{name: "request below limit", resources: []rr{{Requests: list("500m", "1Gi"), Limits: list("1", "1Gi")}}, want: v1.PodQOSBurstable},
		{name: "zero request below limit", resources: []rr{{Requests: list("0", "1Gi"), Limits: list("1", "1Gi")}}, want: v1.PodQOSBurstable},
		{name: "no memory limit", resources: []rr{{Requests: list("1", ""), Limits: list("1", "")}}, want: v1.PodQOSBurstable},
		{name: "request only", resources: []rr{{Requests: list("1", "")}}, want: v1.PodQOSBurstable},
		{name: "one container without", resources: []rr{{Limits: list("1", "1Gi")}, {}}, want: v1.PodQOSBurstable},
		{name: "equal sums of unequal containers", resources: []rr{
			{Requests: list("1", "1Gi"), Limits: list("2", "1Gi")}, {Requests: list("2", "1Gi"), Limits: list("1", "1Gi")},
		}, want: v1.PodQOSGuaranteed},
		{name: "init containers count", resources: []rr{{Limits: list("1", "1Gi")}}, init: []rr{{}}, want: v1.PodQOSBurstable},

		{name: "13.2 pod level alone", resources: []rr{{}}, pod: &rr{Limits: list("1", "1Gi")}, want: v1.PodQOSGuaranteed},
		{name: "13.2 pod level replaces the containers", resources: []rr{{Requests: list("1", "")}}, pod: &rr{Requests: list("2", "2Gi"), Limits: list("2", "2Gi")}, want: v1.PodQOSGuaranteed},
		{name: "13.2 an empty pod level leaves the containers", resources: []rr{{Limits: list("1", "1Gi")}}, pod: &rr{}, want: v1.PodQOSGuaranteed},
		{name: "13.2 an empty pod level of nothing", resources: []rr{{}}, pod: &rr{}, want: v1.PodQOSBestEffort},
		{name: "13.2 a pod-level limit beside lower container requests", resources: []rr{{Requests: list("500m", "1Gi")}}, pod: &rr{Limits: list("1", "1Gi")}, want: v1.PodQOSBurstable},
		{name: "13.2 a pod-level limit beside equal container requests", resources: []rr{{Requests: list("1", "1Gi")}}, pod: &rr{Limits: list("1", "1Gi")}, want: v1.PodQOSGuaranteed},
		{name: "13.2 pod-level requests of zero", resources: []rr{{Requests: list("1", "1Gi")}}, pod: &rr{Requests: list("0", "0")}, want: v1.PodQOSBestEffort},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{Resources: test.pod}}
			for _, r := range test.resources {
				pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Resources: r})
			}
			for _, r := range test.init {
				pod.Spec.InitContainers = append(pod.Spec.InitContainers, v1.Container{Resources: r})
			}
			if got := QoS(pod); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			pod.Status.QOSClass = "Given"
			if got := QoS(pod); got != "Given" {
				t.Errorf("13.3: the class in the status wins: %s", got)
			}
		})
	}
}
