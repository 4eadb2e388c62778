package stats

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// TestAvailableMemory (KV1): what a pod and its container have left counts against the limits that the engine sets. The container
// uses 10, the pod 20 in a cgroup of its own, of which the sandbox has 10.
func TestAvailableMemory(t *testing.T) {
	limits := func(limit string) v1.ResourceList {
		if limit == "" {
			return nil
		}
		return v1.ResourceList{v1.ResourceMemory: resource.MustParse(limit)}
	}
	container := func(name, limit string) v1.Container {
		return v1.Container{Name: name, Resources: v1.ResourceRequirements{Limits: limits(limit)}}
	}
	sidecar := func(limit string) v1.Container {
		c, always := container("side", limit), v1.ContainerRestartPolicyAlways
		c.RestartPolicy = &always
		return c
	}
	const none = -1
	for name, tc := range map[string]struct {
		app             string
		others          []v1.Container // init containers
		level, overhead string
		bare            bool // no cgroup of its own
		pod, container  int
	}{
		"it has one":                      {app: "100", pod: 80, container: 90},
		"it has none":                     {pod: none, container: none},
		"a sidecar":                       {app: "100", others: []v1.Container{sidecar("7")}, pod: 87, container: 90},
		"a sidecar without one":           {app: "100", others: []v1.Container{sidecar("")}, pod: none, container: 90},
		"an init container with more":     {app: "100", others: []v1.Container{container("first", "500")}, pod: 480, container: 90},
		"an init container with less":     {app: "100", others: []v1.Container{container("first", "50")}, pod: 80, container: 90},
		"an init container without one":   {app: "100", others: []v1.Container{container("first", "")}, pod: none, container: 90},
		"overhead":                        {app: "15", overhead: "64", pod: 59, container: 5},
		"overhead without a pod's cgroup": {app: "15", overhead: "64", bare: true, pod: 5, container: 5},
		"of the pod":                      {level: "50", pod: 30, container: 40},
		"of both":                         {app: "40", level: "50", pod: 30, container: 30},
	} {
		m := newMachine(t, true)
		spec := &m.pod("web").Spec
		spec.InitContainers, spec.Containers, spec.Overhead = tc.others, []v1.Container{container("app", tc.app)}, limits(tc.overhead)
		if tc.level != "" {
			spec.Resources = &v1.ResourceRequirements{Limits: limits(tc.level)}
		}
		m.run("web", "app", "c1", 0, time.Second, 10)
		if !tc.bare {
			m.cgroup("kubepods/poduid-web/c1", time.Second, 11, 41)
			m.cgroup("kubepods/poduid-web", time.Second, 22, 41)
		}
		p := ask(t, m.source(), "").Pods[0]
		left := func(m *stats.MemoryStats) int {
			if m.AvailableBytes == nil {
				return none
			}
			return int(*m.AvailableBytes)
		}
		if pod, container := left(p.Memory), left(p.Containers[0].Memory); pod != tc.pod || container != tc.container {
			t.Errorf("%s: the pod has %d, want %d, the container %d, want %d", name, pod, tc.pod, container, tc.container)
		}
	}
}
