//go:build containerd

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/containerdtest"
)

// inventory is everything that pods leave on a node, by kind.
func inventory(t *testing.T, runtime *containerdtest.Instance, root, parent string) map[string][]string {
	t.Helper()
	glob := func(parts ...string) []string {
		found, err := filepath.Glob(filepath.Join(parts...))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var mounts, shared []string
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 4 && (strings.HasPrefix(fields[4], runtime.Root+"/") || strings.HasPrefix(fields[4], root+"/")) {
			if filepath.Base(fields[4]) == "shm" {
				shared = append(shared, fields[4])
				continue
			}
			mounts = append(mounts, fields[4])
		}
	}
	slices.Sort(mounts)
	var cgroups []string
	for _, tree := range slices.Concat(glob(containerdtest.CgroupRoot, "*", parent), glob(containerdtest.CgroupRoot, parent)) {
		// Cgroups come and go while they are listed.
		_ = filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && strings.Contains(filepath.Base(path), "pod") && path != tree {
				cgroups = append(cgroups, path)
			}
			return nil
		})
	}
	return map[string][]string{
		"containers":         strings.Fields(runtime.Ctr("containers", "ls", "-q")),
		"tasks":              strings.Fields(runtime.Ctr("tasks", "ls", "-q")),
		"snapshots":          glob(runtime.Root, "data", "io.containerd.snapshotter.v1.overlayfs", "snapshots", "*"),
		"addresses":          glob(runtime.Root, "ipam", "*", "198.*"),
		"network namespaces": glob(runtime.Root, "state", "io.containerd.grpc.v1.cri", "netns", "*"),
		"sandbox folders":    glob(runtime.Root, "state", "io.containerd.grpc.v1.cri", "sandboxes", "*"),
		"mounts":             mounts,
		"shared memory":      shared,
		"cgroups":            cgroups,
		"pod folders":        glob(root, "pods", "*"),
		"log folders":        glob(root, "logs", "*"),
	}
}

// TestContainerdLeftBehind: manifests change, and pods are deleted by hand with ctr,
// while no agent runs (cleanup.md edge cases 3, 4, 10, ND8, HI4, HI5). The next agent
// makes it all as the manifests say; afterwards, and when all of them are gone, there
// is nothing left of what should not be: no container, sandbox, network namespace,
// address, mount, cgroup or folder. Containers of others on the socket are not touched.
func TestContainerdLeftBehind(t *testing.T) {
	beside(t)
	runtime, manifests, args := onContainerd(t)
	runtime.NeedPrivate(t, "looks into the folders of a containerd")
	parent, root := cgroupParent(t), args[3]
	args = append(args, "--pod-cgroups", parent)
	otherManifests := t.TempDir()
	writeManifest(t, otherManifests, "foreign.yaml", pod("foreign", runtime.Image, "sleep 1000"))
	other := startAgent(t, "--manifests", otherManifests, "--root", t.TempDir(), "--runtime", runtime.Endpoint, "--node-name", "n2")
	foreign := func() *v1.Pod { return other.pods()["foreign"] }
	await(t, "the foreign pod to run", func() error {
		if p := foreign(); p == nil || p.Status.Phase != v1.PodRunning {
			return errors.New("not yet")
		}
		return nil
	})
	foreignIDs := containerIDs(foreign())
	empty := inventory(t, runtime, root, parent)

	memory := []string{
		"    volumeMounts: [{name: data, mountPath: /data}]", "  volumes: [{name: data, emptyDir: {medium: Memory}}]",
	}
	names := []string{"stays", "changes", "gone", "half", "byhand"}
	for _, name := range names {
		writeManifest(t, manifests, name+".yaml", pod(name, runtime.Image, "sleep 1000", memory...))
	}
	a := startAgent(t, args...)
	before := map[string]*v1.Pod{}
	for _, name := range names {
		before[name] = a.awaitPhase(name, v1.PodRunning)
	}
	five := inventory(t, runtime, root, parent)
	// A container that has ended is kept with its sandbox as long as its pod lives, and
	// containerd 2 keeps the memory of a sandbox that died by itself as long as that.
	for _, kind := range []string{"containers", "sandbox folders", "snapshots", "shared memory"} {
		delete(five, kind)
	}
	for kind := range five {
		if len(five[kind]) < len(empty[kind])+len(names) {
			t.Fatalf("%d %s: this test looks in the wrong place", len(five[kind]), kind)
		}
	}
	a.kill()

	writeManifest(t, manifests, "changes.yaml", pod("changes", runtime.Image, "sleep 2000", memory...))
	remove(t, filepath.Join(manifests, "gone.yaml"))
	writeManifest(t, manifests, "new.yaml", pod("new", runtime.Image, "sleep 1000", memory...))
	// The container of one pod dies, and everything of another; of that the sandbox's
	// record goes too, so that its network was never torn down. The record of a
	// container stays: without it containerd 1.6 can never again remove the sandbox.
	killTask(t, runtime, criID(containerIDs(before["half"])["main"]))
	for _, id := range ofPod(runtime, before["byhand"]) {
		killTask(t, runtime, id)
		if id != criID(containerIDs(before["byhand"])["main"]) {
			runtime.Ctr("containers", "delete", id)
		}
	}

	b := startAgent(t, args...)
	for _, name := range []string{"stays", "changes", "half", "byhand", "new"} {
		b.awaitPod(name, "running", func(p *v1.Pod) bool {
			s := p.Status.ContainerStatuses
			return p.Status.Phase == v1.PodRunning && len(s) == 1 && s[0].State.Running != nil &&
				(name == "stays" || before[name] == nil || s[0].ContainerID != before[name].Status.ContainerStatuses[0].ContainerID)
		})
	}
	if got, want := containerIDs(b.pods()["stays"]), containerIDs(before["stays"]); !reflect.DeepEqual(got, want) {
		t.Errorf("stays: containers %v, before %v", got, want)
	}
	// Five pods as before, of which no two have the same address.
	awaitInventory(t, "as many of everything as five pods have", runtime, root, parent, five)
	for _, name := range []string{"stays", "changes", "half", "byhand", "new"} {
		remove(t, filepath.Join(manifests, name+".yaml"))
	}
	awaitInventory(t, "nothing to be left", runtime, root, parent, empty)
	if got := containerIDs(foreign()); !reflect.DeepEqual(got, foreignIDs) || foreign().Status.Phase != v1.PodRunning {
		t.Errorf("the foreign pod was harmed: %v, before %v", got, foreignIDs)
	}
}

// killTask ends a container without telling the agent.
func killTask(t *testing.T, runtime *containerdtest.Instance, id string) {
	t.Helper()
	runtime.Ctr("tasks", "kill", "-s", "SIGKILL", id)
	await(t, "the task to go", func() error { // containerd's CRI plugin deletes it
		if strings.Contains(runtime.Ctr("tasks", "ls", "-q"), id) {
			return errors.New("it is still there")
		}
		return nil
	})
}

// ofPod returns the containers of a pod as containerd has them, the sandbox last.
func ofPod(runtime *containerdtest.Instance, pod *v1.Pod) []string {
	main := criID(containerIDs(pod)["main"])
	ids := []string{main}
	for _, id := range strings.Fields(runtime.Ctr("containers", "ls", "-q")) {
		if id != main && strings.Contains(runtime.Ctr("containers", "info", id), string(pod.UID)) {
			ids = append(ids, id)
		}
	}
	return ids
}

// awaitInventory waits until there is as much of everything as in want.
func awaitInventory(t *testing.T, what string, runtime *containerdtest.Instance, root, parent string, want map[string][]string) {
	t.Helper()
	await(t, what, func() error {
		var problems []error
		got := inventory(t, runtime, root, parent)
		for _, kind := range slices.Sorted(maps.Keys(want)) {
			if len(got[kind]) != len(want[kind]) {
				problems = append(problems, fmt.Errorf("%d %s, want %d: %q", len(got[kind]), kind, len(want[kind]), got[kind]))
			}
		}
		return errors.Join(problems...)
	})
}
