package enginetest_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/cleanup/imagegc"
	"github.com/podwright/podwright/runtime/fake"
)

// smallDisk mounts a file system of 4 MiB and returns how to remount it.
func smallDisk(t *testing.T, root string) (remount func(flags uintptr)) {
	if err := os.MkdirAll(root, 0o750); err != nil {
		t.Fatal(err)
	}
	err := unix.Mount("tmpfs", root, "tmpfs", 0, "size=4m")
	if errors.Is(err, unix.EPERM) {
		t.Skip("mounting a file system takes privileges")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(root, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return func(flags uintptr) {
		if err := unix.Mount("tmpfs", root, "", unix.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
}

// fill writes to the disk until it is full.
func fill(t *testing.T, path string) {
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := bytes.Repeat([]byte{'x'}, 4096)
	for err == nil {
		_, err = f.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}

// leftOf returns what is left of a pod in the runtime and on the disk.
func leftOf(r *rig, uid string) (left []string) {
	sandboxes, err := r.runtime.ListPodSandbox(r.t.Context(), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, s := range sandboxes {
		if s.Metadata.GetUid() == uid {
			left = append(left, "sandbox "+s.Id)
		}
	}
	for _, pattern := range []string{"pods/" + uid, "logs/*_" + uid} {
		found, err := filepath.Glob(filepath.Join(r.root, pattern))
		if err != nil {
			r.t.Fatal(err)
		}
		left = append(left, found...)
	}
	return left
}

// TestFullDiskDelaysCleanup: cleanup edge case 35, HI12: on a full disk a running pod is not
// touched, and the remains of a deleted one are removed as soon as there is room to record its end.
func TestFullDiskDelaysCleanup(t *testing.T) {
	root := t.TempDir()
	smallDisk(t, root)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, fake.New(fake.Options{}), root).start()
		r.set(newPod("web"), newPod("old"))
		r.phase("uid-web", v1.PodRunning, time.Minute)
		r.phase("uid-old", v1.PodRunning, time.Minute)
		fill(t, filepath.Join(root, "ballast"))
		r.set(newPod("web"))
		<-time.After(3 * time.Minute)
		if r.runtime.Running("uid-web", "main") != 1 || starts(r.runtime, "uid-web") != 1 {
			t.Errorf("web was started %d times", starts(r.runtime, "uid-web"))
		}
		if err := os.Remove(filepath.Join(root, "ballast")); err != nil {
			t.Fatal(err)
		}
		r.within(10*time.Minute, "the deleted pod to be gone", func() error {
			if left := leftOf(r, "uid-old"); len(left) > 0 {
				return errors.New(strings.Join(left, ", "))
			}
			return r.engine.Healthy()
		})
		if r.runtime.Running("uid-web", "main") != 1 || starts(r.runtime, "uid-web") != 1 {
			t.Errorf("web was started %d times", starts(r.runtime, "uid-web"))
		}
	})
}

// TestReadOnlyDiskDelaysCleanup: OD5, OD10, DR3: folders that cannot be removed stay, the plan says
// why and when the engine will retry, other pods are not affected, and once the disk can be written
// again the folders are removed.
func TestReadOnlyDiskDelaysCleanup(t *testing.T) {
	root := t.TempDir()
	// Mount only the pods folder: a disk with an open file cannot be remounted read-only.
	remount := smallDisk(t, filepath.Join(root, "pods"))
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, fake.New(fake.Options{}), root).start()
		r.set(newPod("web"))
		r.phase("uid-web", v1.PodRunning, time.Minute)
		if err := os.MkdirAll(filepath.Join(root, "pods", "uid-left", "containers"), 0o750); err != nil {
			t.Fatal(err)
		}
		remount(unix.MS_RDONLY)
		<-time.After(time.Minute)
		plan, err := r.engine.CleanupPlan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		read := ""
		for _, a := range plan.Actions {
			if a.Step == cleanup.StepDirectories && a.PodUID == "uid-left" {
				read = a.Forbidden.String()
			}
		}
		if !strings.HasPrefix(read, "OD10: failed, next try in ") || !strings.Contains(read, "read-only file system") {
			t.Errorf("operators read %q", read)
		}
		if r.runtime.Running("uid-web", "main") != 1 || starts(r.runtime, "uid-web") != 1 {
			t.Errorf("web was started %d times", starts(r.runtime, "uid-web"))
		}
		remount(0)
		r.within(10*time.Minute, "the folder to go", func() error {
			if left := leftOf(r, "uid-left"); len(left) > 0 {
				return errors.New(strings.Join(left, ", "))
			}
			return r.engine.Healthy()
		})
	})
}

// TestOnlyUnneededImagesGo: IG1, IG5, IG11, ND5, DR1: an engine configured to do so removes from a
// full disk the images that no container or desired pod needs; the plan says which ones go and why
// the others stay. Without that configuration the engine removes none.
func TestOnlyUnneededImagesGo(t *testing.T) {
	root := t.TempDir()
	smallDisk(t, root)
	fill(t, filepath.Join(root, "ballast"))
	for _, on := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			rt := fake.New(fake.Options{Images: []fake.Image{
				{Ref: "app:1", Size: 1 << 20}, {Ref: "old:1", Size: 1 << 20}, {Ref: "kept:1", Size: 1 << 20}, {Ref: "later:1", Size: 1 << 20},
			}})
			r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) {
				if on {
					c.ImageGC = &podwright.ImageGC{Policy: imagegc.Policy{HighPercent: 90}, Dir: root, Keep: []string{"kept:1"}}
				}
			}).start()
			later := newPod("later")
			later.Spec.Containers[0].Image = "later:1"
			later.Spec.Volumes = []v1.Volume{{Name: "x", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "missing"}}}}
			later.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "x", MountPath: "/x"}}
			r.set(newPod("web"), later)
			r.phase("uid-web", v1.PodRunning, time.Minute)
			<-time.After(3 * time.Minute)
			plan, err := r.engine.CleanupPlan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			verdicts := map[string]bool{}
			for _, a := range plan.Actions {
				if a.Step == cleanup.StepImages {
					name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(a.Object.String(), "docker.io/"), "library/"), "@")
					verdicts[name] = a.Allowed()
				}
			}
			want := map[string]bool{"app:1": false, "old:1": true, "kept:1": false, "later:1": false}
			for name, goes := range want {
				if got, planned := verdicts[name]; planned != on || got != (goes && on) {
					t.Errorf("on %v: the plan for %s: %v, %v", on, name, got, planned)
				}
			}
			<-time.After(15 * time.Minute)
			images, err := rt.ListImages(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if left := map[bool]int{true: 3, false: 4}[on]; len(images) != left {
				t.Errorf("on %v: %d images are left, want %d", on, len(images), left)
			}
			if on && r.events.count("n1 FreeDiskSpaceFailed") == 0 {
				t.Error("no event says that the disk stays full (edge case 26)")
			}
		})
	}
}
