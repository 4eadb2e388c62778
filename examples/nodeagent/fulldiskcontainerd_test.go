//go:build containerd

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/containerdtest"
	"github.com/podwright/podwright/internal/patience"
)

// smallDisk mounts a file system of its own with so many bytes, below the folder of the
// runtime, until the end of the test.
func smallDisk(t *testing.T, runtime *containerdtest.Instance, name string, size int64) string {
	t.Helper()
	image, dir := filepath.Join(runtime.Root, name+".img"), filepath.Join(runtime.Root, name)
	f, err := os.Create(image)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(size), f.Close(), os.Mkdir(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{
		{"mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", image}, // all of it is for pods
		{"mount", "-o", "loop", image, dir},
	} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", command, err, out)
		}
	}
	t.Cleanup(func() {
		// Pods may still use it, and keep it until they have gone.
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// free is how many bytes are left on the file system of a folder.
func free(t *testing.T, dir string) int64 {
	t.Helper()
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		t.Fatal(err)
	}
	return int64(stat.Bavail) * stat.Bsize
}

// TestContainerdFullDisk: IN4: an emptyDir fills the agent's disk to the last byte. Pods
// that run are untouched, also when the agent is killed and starts again on the full disk.
// When the pod is removed, the disk is free again and what waited for it runs.
func TestContainerdFullDisk(t *testing.T) {
	beside(t)
	runtime := containerdtest.Start(t)
	manifests := t.TempDir()
	disk := smallDisk(t, runtime, "disk", 48<<20)
	args := []string{"--manifests", manifests, "--root", filepath.Join(disk, "root"), "--runtime", runtime.Endpoint}
	a := startAgent(t, args...)
	others := runBystanders(t, runtime, a, manifests, 8)
	before := free(t, disk)
	writeManifest(t, manifests, "hog.yaml", pod("hog", runtime.Image,
		"sleep 1; dd if=/dev/zero of=/data/much bs=64k; dd if=/dev/zero of=/data/more bs=1k; sleep 100000",
		"    volumeMounts: [{name: data, mountPath: /data}]",
		"  hostNetwork: true", "  terminationGracePeriodSeconds: 1", "  volumes: [{name: data, emptyDir: {}}]"))
	hog := a.awaitPhase("hog", v1.PodRunning)
	await(t, "the disk to be full", func() error {
		// The agent may remove a small file of its own after the hog has given up.
		if left := free(t, disk); left > 16<<10 {
			return fmt.Errorf("%d bytes are free", left)
		}
		return nil
	})
	t.Logf("%d MiB were free, %d bytes are", before>>20, free(t, disk))
	others.check(a)
	a.kill()
	a = startAgent(t, args...)
	writeManifest(t, manifests, "late.yaml", pod("late", runtime.Image, "sleep 100000",
		"    volumeMounts: [{name: data, mountPath: /data}]",
		"  hostNetwork: true", "  terminationGracePeriodSeconds: 1", "  volumes: [{name: data, emptyDir: {}}]"))
	a.awaitPod("late", "known", func(*v1.Pod) bool { return true })
	others.check(a)
	if got, want := containerIDs(a.awaitPhase("hog", v1.PodRunning))["main"], containerIDs(hog)["main"]; got != want {
		t.Errorf("hog has container %s, before %s", got, want)
	}
	if left := free(t, disk); left > 1<<20 { // a killed agent may have given its reserve
		t.Fatalf("%d bytes are free before the pod is removed", left)
	}

	began := time.Now()
	remove(t, filepath.Join(manifests, "hog.yaml"))
	await(t, "the disk to be free", func() error {
		if left := free(t, disk); left < before-2<<20 {
			return fmt.Errorf("%d bytes are free", left)
		}
		return nil
	})
	took := time.Since(began)
	t.Logf("the disk is free %v after the pod's removal", took.Round(time.Millisecond))
	if took > patience.Of(15*time.Second) {
		t.Errorf("the disk was free %v after the pod's removal", took)
	}
	a.awaitGone("hog")
	a.awaitPhase("late", v1.PodRunning)
	t.Logf("late runs %v after the pod's removal", time.Since(began).Round(time.Millisecond))
	others.check(a)
	await(t, "health", func() error {
		if code, body := a.get("/healthz"); code != 200 {
			return errors.New(body)
		}
		return nil
	})

	// What could not be written is on the disk now.
	a.kill()
	a = startAgent(t, args...)
	others.check(a)
	a.awaitPhase("late", v1.PodRunning)
}
