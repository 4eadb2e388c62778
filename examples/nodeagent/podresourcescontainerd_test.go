//go:build containerd

package main

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestContainerdPodResources: status.md 6.6, 6.7. A container without resources of its own
// shows {}, and the pod shows what its cgroup is set to, also if that is not what the spec says.
func TestContainerdPodResources(t *testing.T) {
	beside(t)
	runtime, manifests, args := onContainerd(t)
	parent := cgroupParent(t)
	a := startAgent(t, append(args, "--pod-cgroups", parent)...)
	manifest := func(note string) string {
		return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: whole, uid: uid-whole, annotations: {note: %s}}
spec:
  terminationGracePeriodSeconds: 2
  resources: {requests: {cpu: 100m, memory: 16Mi}, limits: {cpu: 500m, memory: 64Mi}}
  containers:
  - {name: main, image: %s, imagePullPolicy: IfNotPresent, command: [sleep, "1000"]}
`, note, runtime.Image)
	}
	path := writeManifest(t, manifests, "whole.yaml", manifest("first"))
	whole := a.awaitPhase("whole", v1.PodRunning)
	c := whole.Status.ContainerStatuses[0]
	if r := c.Resources; r == nil || len(r.Limits)+len(r.Requests) > 0 {
		t.Errorf("resources of the container: %v, want {}", r)
	}
	shows := func(cpu, memory string) func(p *v1.Pod) bool {
		return func(p *v1.Pod) bool {
			r := p.Status.Resources
			return r != nil && r.Requests.Cpu().String() == "100m" && r.Requests.Memory().String() == "16Mi" &&
				r.Limits.Cpu().Cmp(resource.MustParse(cpu)) == 0 && r.Limits.Memory().Cmp(resource.MustParse(memory)) == 0
		}
	}
	a.awaitPod("whole", "the limits of the spec", shows("500m", "64Mi"))
	_, pod := cgroupOf(t, runtime, parent, "uid-whole", criID(c.ContainerID))
	if err := pod.SetMemory(32 << 20); err != nil {
		t.Fatal(err)
	}
	writeManifest(t, manifests, "whole.yaml", manifest("second")) // the pod is looked at again
	a.awaitPod("whole", "the limit of the cgroup", shows("500m", "32Mi"))
	remove(t, path)
	a.awaitGone("whole")
	awaitNoCgroup(t, parent, "burstable")
}
