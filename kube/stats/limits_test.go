package stats

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestPodLimit (KV1): what a pod has left counts against the limits of all that runs in it, sidecars too.
func TestPodLimit(t *testing.T) {
	container := func(limit string, restarts ...v1.ContainerRestartPolicy) v1.Container {
		c := v1.Container{}
		if limit != "" {
			c.Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse(limit)}
		}
		for _, policy := range restarts {
			c.RestartPolicy = &policy
		}
		return c
	}
	for name, tc := range map[string]struct {
		init, all []v1.Container
		want      uint64
	}{
		"each has one":                 {nil, []v1.Container{container("100"), container("20")}, 120},
		"one has none":                 {nil, []v1.Container{container("100"), container("")}, 0},
		"a sidecar":                    {[]v1.Container{container("7", v1.ContainerRestartPolicyAlways)}, []v1.Container{container("100")}, 107},
		"a sidecar without one":        {[]v1.Container{container("", v1.ContainerRestartPolicyAlways)}, []v1.Container{container("100")}, 0},
		"an init container runs first": {[]v1.Container{container("7"), container("")}, []v1.Container{container("100")}, 100},
	} {
		spec := &v1.Pod{Spec: v1.PodSpec{InitContainers: tc.init, Containers: tc.all}}
		if got := podLimit(spec); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}
