//go:build containerd

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/internal/containerdtest"
)

// resizable is a manifest of a pod with a UID of its own, so that a change of the
// file is an update of the pod.
func resizable(name, image, policy, cpu, limit, memory string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %[1]s, uid: uid-%[1]s}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - name: main
    image: %[2]s
    imagePullPolicy: IfNotPresent
    command: [sleep, "1000"]
    resizePolicy:
    - {resourceName: cpu, restartPolicy: NotRequired}
    - {resourceName: memory, restartPolicy: %[3]s}
    resources:
      requests: {cpu: %[4]s, memory: 16Mi}
      limits: {cpu: %[5]s, memory: %[6]s}
`, name, image, policy, cpu, limit, memory)
}

// cgroupParent names a cgroup for the pods of one test, which are gone at its end.
func cgroupParent(t *testing.T) string {
	parent := fmt.Sprintf("podwright-%s-%d", strings.ToLower(path.Base(t.Name())), os.Getpid())
	t.Cleanup(func() {
		for _, pattern := range []string{"*/" + parent, parent} {
			found, _ := filepath.Glob(filepath.Join(containerdtest.CgroupRoot, pattern))
			for _, dir := range found {
				removeCgroups(t, dir)
			}
		}
	})
	return parent
}

// removeCgroups removes a cgroup and those below it, as far as they are empty.
func removeCgroups(t *testing.T, dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			removeCgroups(t, filepath.Join(dir, e.Name()))
		}
	}
	if err := os.Remove(dir); err != nil {
		t.Errorf("a cgroup stays: %v", err)
	}
}

// cgroupOf finds the cgroup of a container and the one of its pod, which must be the one below
// the parent that the pod's class has.
func cgroupOf(t *testing.T, runtime *containerdtest.Instance, parent, uid, id string) (container, pod containerdtest.Cgroup) {
	t.Helper()
	container, err := containerdtest.CgroupOf(runtime.PIDOf(id))
	if err != nil {
		t.Fatal(err)
	}
	if pod, err = container.Above("pod" + uid); err != nil {
		t.Fatalf("the container is not below its pod's cgroup: %v", err)
	}
	if pods := podCgroups(t, parent, "burstable"); !slices.Contains(pods, "pod"+uid) {
		t.Fatalf("the parent of all pods has the cgroups %q", pods)
	}
	return container, pod
}

// wantCgroup compares the settings of a cgroup.
func wantCgroup(t *testing.T, c containerdtest.Cgroup, want containerdtest.Settings) {
	t.Helper()
	if err := c.Differences(want); err != nil {
		t.Error(err)
	}
}

// podCgroups returns the names of the pods' cgroups of a class, "" for Guaranteed ones.
func podCgroups(t *testing.T, parent, class string) []string {
	t.Helper()
	level, err := containerdtest.CgroupNamed(path.Join(parent, class))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var names []string
	if err == nil {
		names, err = level.Children("pod")
	}
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// awaitNoCgroup waits until no pod of a class has a cgroup: that is the last thing to go.
func awaitNoCgroup(t *testing.T, parent, class string) {
	t.Helper()
	await(t, "the cgroups of the pods to be gone", func() error {
		if left := podCgroups(t, parent, class); len(left) > 0 {
			return errors.New(strings.Join(left, " "))
		}
		return nil
	})
}

// TestContainerdResize: an edited manifest changes the limits of the running container
// and of its pod (runtime.md 21.2-21.6, 3.3, 13.4); where the policy says so the
// container restarts, once (21.5). An agent that was killed goes on from what it had
// allocated (21.1).
func TestContainerdResize(t *testing.T) {
	beside(t)
	runtime, manifests, args := onContainerd(t)
	parent := cgroupParent(t)
	args = append(args, "--pod-cgroups", parent)
	a := startAgent(t, args...)
	writeManifest(t, manifests, "live.yaml", resizable("live", runtime.Image, "NotRequired", "100m", "500m", "64Mi"))
	writeManifest(t, manifests, "again.yaml", resizable("again", runtime.Image, "RestartContainer", "100m", "500m", "64Mi"))
	before := map[string]*v1.Pod{}
	for _, name := range []string{"live", "again"} {
		before[name] = a.awaitPhase(name, v1.PodRunning)
	}
	id := func(p *v1.Pod) string {
		return criID(p.Status.ContainerStatuses[0].ContainerID)
	}
	container, whole := cgroupOf(t, runtime, parent, "uid-live", id(before["live"]))
	for _, c := range []containerdtest.Cgroup{container, whole} {
		wantCgroup(t, c, containerdtest.Settings{CPUShares: 102, CPUQuota: 50000, Memory: 64 << 20})
	}

	writeManifest(t, manifests, "live.yaml", resizable("live", runtime.Image, "NotRequired", "250m", "700m", "96Mi"))
	writeManifest(t, manifests, "again.yaml", resizable("again", runtime.Image, "RestartContainer", "100m", "500m", "96Mi"))
	resized := func(p *v1.Pod) bool {
		c := p.Status.ContainerStatuses[0]
		for _, condition := range p.Status.Conditions {
			if condition.Type == v1.PodResizeInProgress || condition.Type == v1.PodResizePending {
				return false
			}
		}
		return c.State.Running != nil && c.Resources != nil && c.Resources.Limits.Memory().Cmp(resource.MustParse("96Mi")) == 0
	}
	live := a.awaitPod("live", "96Mi", resized)
	if id(live) != id(before["live"]) || live.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the container was restarted: %+v", live.Status.ContainerStatuses[0])
	}
	for _, c := range []containerdtest.Cgroup{container, whole} {
		wantCgroup(t, c, containerdtest.Settings{CPUShares: 256, CPUQuota: 70000, Memory: 96 << 20})
	}
	again := a.awaitPod("again", "96Mi", resized)
	if id(again) == id(before["again"]) || again.Status.ContainerStatuses[0].RestartCount != 1 {
		t.Errorf("the container was not restarted once: %+v", again.Status.ContainerStatuses[0])
	}
	_, podAgain := cgroupOf(t, runtime, parent, "uid-again", id(again))
	wantCgroup(t, podAgain, containerdtest.Settings{Memory: 96 << 20})

	// What never fits changes nothing, also after the agent was killed meanwhile.
	a.kill()
	writeManifest(t, manifests, "live.yaml", resizable("live", runtime.Image, "NotRequired", "100", "200", "96Mi"))
	b := startAgent(t, args...)
	refused := b.awaitPod("live", "Infeasible", func(p *v1.Pod) bool {
		for _, c := range p.Status.Conditions {
			if c.Type == v1.PodResizePending {
				return c.Reason == v1.PodReasonInfeasible
			}
		}
		return false
	})
	if id(refused) != id(live) {
		t.Error("the container was replaced")
	}
	wantCgroup(t, container, containerdtest.Settings{CPUShares: 256, CPUQuota: 70000})

	remove(t, filepath.Join(manifests, "live.yaml"))
	remove(t, filepath.Join(manifests, "again.yaml"))
	awaitNoCgroup(t, parent, "burstable")
	await(t, "the records of the pods to be gone", func() error {
		if left, _ := filepath.Glob(filepath.Join(args[3], "state", "resources", "*")); len(left) > 0 {
			return errors.New(strings.Join(left, " "))
		}
		return nil
	})
}

// TestContainerdPodCgroupsLater: pods that run outside of the cgroups they should be in
// are killed once and come back inside (runtime.md 7.2).
func TestContainerdPodCgroupsLater(t *testing.T) {
	beside(t)
	runtime, manifests, args := onContainerd(t)
	parent := cgroupParent(t)
	writeManifest(t, manifests, "late.yaml", resizable("late", runtime.Image, "NotRequired", "100m", "500m", "64Mi"))
	a := startAgent(t, args...)
	a.awaitPhase("late", v1.PodRunning)
	a.kill()
	b := startAgent(t, append(args, "--pod-cgroups", parent)...)
	late := b.awaitPod("late", "one restart", func(p *v1.Pod) bool {
		c := p.Status.ContainerStatuses
		return len(c) == 1 && c[0].RestartCount == 1 && c[0].State.Running != nil
	})
	id := criID(late.Status.ContainerStatuses[0].ContainerID)
	_, pod := cgroupOf(t, runtime, parent, "uid-late", id)
	wantCgroup(t, pod, containerdtest.Settings{Memory: 64 << 20})
	remove(t, filepath.Join(manifests, "late.yaml"))
	awaitNoCgroup(t, parent, "burstable")
}
