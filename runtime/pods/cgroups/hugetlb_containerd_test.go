//go:build containerd

package cgroups_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/runtime/pods/cgroups"
)

// TestContainerdHugePagesOnTheKernel: the kernel takes a pod's limits of huge pages and keeps
// them (spec/runtime.md 13.4), on the version of cgroups that the machine has.
func TestContainerdHugePagesOnTheKernel(t *testing.T) {
	const size, limit = "2MB", 4 << 20
	if _, err := os.Stat("/sys/kernel/mm/hugepages/hugepages-2048kB"); err != nil {
		t.Skip("the kernel has no huge pages of 2 MB")
	}
	parent := fmt.Sprintf("podwright-huge-%d", os.Getpid())
	folder := t.TempDir()
	var missing string
	err := inMountNamespace(func() (err error) {
		root, tree, suffix := "", "", ""
		if root, tree, suffix, missing, err = hugetlbRoot(folder); err != nil || missing != "" {
			return err
		}
		h, err := cgroups.New(cgroups.Options{Root: root, Parent: parent})
		if err != nil {
			return err
		}
		pod := pods.PodCgroup{UID: "u", Class: v1.PodQOSGuaranteed}
		defer func() {
			err = errors.Join(err, h.Destroy(t.Context(), pod.UID), removeLevels(root, parent), giveBack(tree))
		}()
		if err := errors.Join(h.Setup(), h.Create(pod, pods.CgroupResources{HugePages: map[string]int64{size: limit}})); err != nil {
			return err
		}
		name, err := h.Parent(pod)
		if err != nil {
			return err
		}
		for _, file := range []string{"hugetlb." + size + suffix, "hugetlb." + size + ".rsvd" + suffix} {
			text, err := os.ReadFile(filepath.Join(tree, name, file))
			if errors.Is(err, os.ErrNotExist) && strings.Contains(file, ".rsvd") {
				continue // kernels before 5.7
			}
			if got := strings.TrimSpace(string(text)); err != nil || got != fmt.Sprint(limit) {
				t.Errorf("%s is %q, %v; want %d", file, got, err, limit)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if missing != "" {
		t.Skip(missing)
	}
}

// hugetlbRoot returns a root of cgroups with the controller for huge pages, the tree that has
// it and how its limits end, or what the machine is missing. Where version 1 is mounted
// without it, it is mounted below folder.
func hugetlbRoot(folder string) (root, tree, suffix, missing string, err error) {
	const machine = "/sys/fs/cgroup"
	if text, err := os.ReadFile(filepath.Join(machine, "cgroup.controllers")); err == nil {
		if !strings.Contains(string(text), "hugetlb") {
			missing = "cgroup v2 has no controller hugetlb here"
		}
		return machine, machine, ".max", missing, nil
	}
	for _, name := range []string{"memory", "cpu", "hugetlb"} {
		mounted := filepath.Join(folder, name)
		if err := os.Mkdir(mounted, 0o755); err != nil {
			return "", "", "", "", err
		}
		err := unix.Mount(filepath.Join(machine, name), mounted, "", unix.MS_BIND, "")
		if errors.Is(err, os.ErrNotExist) {
			err = unix.Mount("cgroup", mounted, "cgroup", 0, name)
		}
		if err != nil {
			return "", "", "", fmt.Sprintf("cgroup v1 cannot give the controller %s here: %v", name, err), nil
		}
	}
	return folder, filepath.Join(folder, "hugetlb"), ".limit_in_bytes", "", nil
}

// removeLevels removes the cgroups that Setup made.
func removeLevels(root, parent string) error {
	trees := []string{root}
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err != nil {
		trees, _ = filepath.Glob(filepath.Join(root, "*")) // the pattern is well formed
	}
	var problems []error
	for _, tree := range trees {
		for _, level := range []string{"burstable", "besteffort", ""} {
			if err := os.Remove(filepath.Join(tree, parent, level)); err != nil && !errors.Is(err, os.ErrNotExist) {
				problems = append(problems, err)
			}
		}
	}
	return errors.Join(problems...)
}

// giveBack returns the controller to version 2 if it was mounted for the test. The kernel keeps
// a hierarchy that is unmounted while its removed cgroups are still going away. So it is mounted
// again until it is a new one, which has had no cgroups and goes away at once.
func giveBack(tree string) error {
	if tree == "/sys/fs/cgroup" {
		return nil
	}
	const tries = 10000 // about a second
	first, err := hierarchyNumber()
	for try := 0; err == nil && try < tries; try++ {
		if err := errors.Join(unix.Unmount(tree, 0), unix.Mount("cgroup", tree, "cgroup", 0, "hugetlb")); err != nil {
			return err
		}
		var now string
		if now, err = hierarchyNumber(); now != first {
			break
		}
	}
	return errors.Join(err, unix.Unmount(tree, 0))
}

// hierarchyNumber is the number that the kernel gave the hierarchy with the controller.
func hierarchyNumber() (string, error) {
	table, err := os.ReadFile("/proc/cgroups")
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "hugetlb" {
			return f[1], nil
		}
	}
	return "", err
}

// inMountNamespace runs f where its mounts are its own: no runtime beside the test sees them.
func inMountNamespace(f func() error) error {
	done := make(chan error)
	go func() {
		goruntime.LockOSThread() // never unlocked: the thread ends with the namespace
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}
