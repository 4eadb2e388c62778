package poddir_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

// mountStore is a store whose mounts end with the test.
func mountStore(t *testing.T) poddir.Store {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	s := newStore(t)
	t.Cleanup(func() {
		for {
			uids, err := s.List()
			left := []string{}
			for _, uid := range uids {
				points, mountErr := s.Mounted(uid)
				err = errors.Join(err, mountErr)
				left = append(left, points...)
			}
			if err != nil || len(left) == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			// The last one is the topmost.
			if err := unix.Unmount(left[len(left)-1], unix.MNT_DETACH); err != nil {
				t.Error(err)
				return
			}
		}
	})
	return s
}

func memory(t *testing.T, s poddir.Store, v poddir.VolumeDir) string {
	t.Helper()
	v.Plugin, v.Name, v.Mode, v.Memory = poddir.EmptyDir, "m", 0o777, true
	path, err := s.MakeVolume("u", v)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func mounted(t *testing.T, s poddir.Store, uid types.UID) int {
	t.Helper()
	points, err := s.Mounted(uid)
	if err != nil {
		t.Fatal(err)
	}
	return len(points)
}

// A volume in memory is a file system of the size asked for, with its owner and
// mode from the start; another look, as after a restart of the agent, finds it.
func TestMemoryVolume(t *testing.T) {
	s := mountStore(t)
	path := memory(t, s, poddir.VolumeDir{Size: 1 << 20, Group: ptr.To[int64](4321)})
	var fs_ unix.Statfs_t
	if err := unix.Statfs(path, &fs_); err != nil {
		t.Fatal(err)
	}
	if fs_.Type != unix.TMPFS_MAGIC || int64(fs_.Blocks)*fs_.Bsize != 1<<20 {
		t.Errorf("type %x, %d bytes", fs_.Type, int64(fs_.Blocks)*fs_.Bsize)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if gid := info.Sys().(*syscall.Stat_t).Gid; gid != 4321 || info.Mode() != fs.ModeDir|fs.ModeSetgid|0o777 {
		t.Errorf("14.8: group %d, mode %v", gid, info.Mode())
	}
	if err := os.WriteFile(filepath.Join(path, "big"), make([]byte, 2<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("more than sizeLimit: %v", err)
	}
	if err := os.Remove(filepath.Join(path, "big")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(path, "f"), "x")
	if again := memory(t, s, poddir.VolumeDir{Size: 1 << 20}); again != path || mounted(t, s, "u") != 1 {
		t.Errorf("again: %s, %d mounts", again, mounted(t, s, "u"))
	}
	if _, err := os.Stat(filepath.Join(path, "f")); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := s.TearDown(t.Context(), "u"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) || mounted(t, s, "u") != 0 {
		t.Errorf("after the end: %v, %d mounts", err, mounted(t, s, "u"))
	}
}

// 25.2: what is in memory, such as a secret, is never written to the node's swap space, unless the kernel cannot do that.
func TestMemoryIsNotSwapped(t *testing.T) {
	s := mountStore(t)
	trial := t.TempDir()
	can := unix.Mount("tmpfs", trial, "tmpfs", 0, "noswap")
	if can == nil {
		can = unix.Unmount(trial, 0)
	} else if !errors.Is(can, unix.EINVAL) {
		t.Fatal(can)
	}
	told := 0
	path := memory(t, s, poddir.VolumeDir{Size: 1 << 20, Swappable: func() { told++ }})
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	swapped, found := true, false
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); fields[4] == path {
			found, swapped = true, !slices.Contains(strings.Split(fields[len(fields)-1], ","), "noswap")
		}
	}
	if !found || swapped != (can != nil) || (told > 0) != swapped {
		t.Errorf("found %v, swapped %v, told %d times; the kernel says %v", found, swapped, told, can)
	}
}

// A folder whose making was cut short by a crash is finished by the next try; one
// that a container has changed is left as it is.
func TestUnfinishedVolume(t *testing.T) {
	s := newStore(t)
	path, err := emptyDir(s, "u", "v", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ left, want fs.FileMode }{{0, 0o777}, {0o700, 0o700}} {
		if err := os.Chmod(path, step.left); err != nil {
			t.Fatal(err)
		}
		if _, err := emptyDir(s, "u", "v", nil); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != step.want {
			t.Errorf("%o becomes %o, want %o, err %v", step.left, info.Mode().Perm(), step.want, err)
		}
	}
}

// The end of a pod removes the content of the engine's own volumes and of no
// others (ND1).
func TestTearDownLeavesOthers(t *testing.T) {
	s := newStore(t)
	for _, plugin := range []string{poddir.EmptyDir, poddir.Secret, poddir.ConfigMap, poddir.DownwardAPI, poddir.Projected} {
		path, err := s.MakeVolume("u", poddir.VolumeDir{Plugin: plugin, Name: "v", Mode: 0o755})
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(path, "deep/f"), "x")
	}
	foreign := filepath.Join(s.Path, "u/volumes/example.com~disk/v/f")
	write(t, foreign, "x")
	if err := s.TearDown(t.Context(), "u"); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Join(s.Path, "u/volumes"))
	if err != nil || len(left) != 1 || left[0].Name() != "example.com~disk" {
		t.Errorf("left %v, err %v", left, err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("ND1: %v", err)
	}
}

// OD1 to OD7, OD9, OD11 and the edge cases of spec/cleanup.md that are about folders:
// what is in the way of a removal, what happens to it, and that all goes once it
// is out of the way.
func TestRemoveRules(t *testing.T) {
	for _, tc := range []struct {
		name string
		// prepare puts something into the pod's folder and returns what must
		// survive and how to get it out of the way; nil: nothing is.
		prepare func(t *testing.T, s poddir.Store, pod string) (precious string, clear func() error)
		err     error
		says    string
	}{
		{"edge 10, OD2: a volume of a manager is still mounted", func(t *testing.T, s poddir.Store, pod string) (string, func() error) {
			return bind(t, filepath.Join(pod, "volumes/kubernetes.io~csi/pvc/mount"))
		}, poddir.ErrMounted, ""},
		{"edge 10: something is mounted below a volume in memory", func(t *testing.T, s poddir.Store, pod string) (string, func() error) {
			return bind(t, filepath.Join(memory(t, s, poddir.VolumeDir{}), "sub"))
		}, poddir.ErrMounted, "device or resource busy"},
		{"OD2: a process uses a volume in memory", func(t *testing.T, s poddir.Store, pod string) (string, func() error) {
			file := filepath.Join(memory(t, s, poddir.VolumeDir{}), "data")
			write(t, file, "x")
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			return file, f.Close
		}, poddir.ErrMounted, "device or resource busy"},
		{"OD2: a process works in the folder: that is no reason to keep it", func(t *testing.T, s poddir.Store, pod string) (string, func() error) {
			dir := filepath.Join(pod, "containers/app")
			if err := os.MkdirAll(dir, 0o750); err != nil {
				t.Fatal(err)
			}
			worker := exec.CommandContext(t.Context(), "sleep", "1000")
			worker.Dir = dir
			if err := worker.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _, _ = worker.Process.Kill(), worker.Wait() })
			return "", nil
		}, nil, ""},
		{"OD2: another file system where a volume in memory would be", func(t *testing.T, s poddir.Store, pod string) (string, func() error) {
			return foreign(t, filepath.Join(pod, "volumes", poddir.EmptyDir, "other"))
		}, poddir.ErrMounted, ""},
		{"edge 12, OD3, OD9: data of a volume that is not mounted", func(t *testing.T, s poddir.Store, pod string) (string, func() error) {
			file := filepath.Join(pod, "volumes/kubernetes.io~csi/pvc/data")
			write(t, file, "x")
			return file, func() error { return os.Remove(file) }
		}, poddir.ErrLeftover, "kubernetes.io~csi/pvc/data, last changed 20"},
		{"OD4: a link among the volumes", func(t *testing.T, s poddir.Store, pod string) (string, func() error) {
			target, link := filepath.Join(t.TempDir(), "empty"), filepath.Join(pod, "volumes/example.com~x")
			if err := errors.Join(os.Mkdir(target, 0o750), os.Mkdir(filepath.Dir(link), 0o750), os.Symlink(filepath.Dir(target), link)); err != nil {
				t.Fatal(err)
			}
			return target, func() error { return os.Remove(link) }
		}, poddir.ErrLeftover, "volumes/example.com~x, last changed 20"},
		{"OD6: volumes is no folder", func(t *testing.T, s poddir.Store, pod string) (string, func() error) {
			file := filepath.Join(pod, "volumes")
			write(t, file, "x")
			return file, func() error { return os.Remove(file) }
		}, unix.ENOTDIR, ""},
		{"edge 13: a sub-path with content", func(t *testing.T, s poddir.Store, pod string) (string, func() error) {
			file := filepath.Join(pod, "volume-subpaths/v/app/0/data")
			write(t, file, "x")
			return file, func() error { return os.Remove(file) }
		}, poddir.ErrLeftover, "volume-subpaths/v/app/0, last changed 20"},
		{"edge 13, OD3: the file a sub-path was mounted on", func(t *testing.T, s poddir.Store, pod string) (string, func() error) {
			write(t, filepath.Join(pod, "volume-subpaths/v/app/0"), "")
			return "", nil
		}, nil, ""},
		{"edge 14, OD11: links out of the folder", func(t *testing.T, s poddir.Store, pod string) (string, func() error) {
			target := filepath.Join(t.TempDir(), "f")
			write(t, target, "x")
			for _, link := range []string{"link", "plugins", "volume-subpaths"} {
				if err := os.Symlink(filepath.Dir(target), filepath.Join(pod, link)); err != nil {
					t.Fatal(err)
				}
			}
			return target, func() error { return os.Remove(filepath.Join(pod, "volume-subpaths")) }
		}, unix.ENOTDIR, ""},
		{"edge 16: a CSI volume without its mount", func(t *testing.T, s poddir.Store, pod string) (string, func() error) {
			if err := os.MkdirAll(filepath.Join(pod, "volumes/kubernetes.io~csi/pvc"), 0o750); err != nil {
				t.Fatal(err)
			}
			return "", nil
		}, nil, ""},
		{"edge 17, OD6: a mount outside the volumes", func(t *testing.T, s poddir.Store, pod string) (string, func() error) {
			return bind(t, filepath.Join(pod, "plugins/x"))
		}, poddir.ErrMounted, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := mountStore(t)
			if err := s.Make("u"); err != nil {
				t.Fatal(err)
			}
			pod := filepath.Join(s.Path, "u")
			precious, clear := tc.prepare(t, s, pod)
			if tc.err != nil {
				err := s.Remove(t.Context(), "u")
				if !errors.Is(err, tc.err) || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("err %v, want %v saying %q", err, tc.err, tc.says)
				}
				if _, err := os.Lstat(pod); err != nil {
					t.Errorf("OD5: the folder is gone: %v", err)
				}
				if _, err := os.Stat(precious); err != nil {
					t.Errorf("ND1: %v", err)
				}
				if err := clear(); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Remove(t.Context(), "u"); err != nil {
				t.Errorf("OD7: nothing is in the way: %v", err)
			}
			if _, err := os.Lstat(pod); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("OD7: the folder stays: %v", err)
			}
		})
	}
}

// bind mounts a folder with a precious file on point.
func bind(t *testing.T, point string) (precious string, clear func() error) {
	t.Helper()
	precious = filepath.Join(t.TempDir(), "precious")
	write(t, precious, "x")
	if err := os.MkdirAll(point, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(filepath.Dir(precious), point, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	return precious, func() error { return unix.Unmount(point, 0) }
}

// foreign mounts a file system that no volume in memory has, with a precious file, on point.
func foreign(t *testing.T, point string) (precious string, clear func() error) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(point, 0o750), unix.Mount("ramfs", point, "ramfs", 0, "")); err != nil {
		t.Fatal(err)
	}
	precious = filepath.Join(point, "precious")
	write(t, precious, "x")
	return precious, func() error { return unix.Unmount(point, 0) }
}

// OD1, edge 15: plain files are no candidates; without the folder of all pods there
// is none.
func TestListCandidates(t *testing.T) {
	s := newStore(t)
	if uids, err := s.List(); err != nil || len(uids) != 0 {
		t.Errorf("edge 15: %v, err %v", uids, err)
	}
	write(t, filepath.Join(s.Path, "file"), "x")
	if err := s.Make("u"); err != nil {
		t.Fatal(err)
	}
	if uids, err := s.List(); err != nil || len(uids) != 1 || uids[0] != "u" {
		t.Errorf("OD1: %v, err %v", uids, err)
	}
}

// Without the right to mount, what needs a mount says so and everything else works.
func TestWithoutRoot(t *testing.T) {
	if dir := os.Getenv("PODDIR_TEST_AS_NOBODY"); dir != "" {
		withoutRoot(t, dir)
		return
	}
	if os.Geteuid() != 0 {
		withoutRoot(t, t.TempDir())
		return
	}
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	// The test's binary may lie where other users cannot look.
	binary, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "poddir.test")
	if err := os.WriteFile(path, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), path, "-test.run=^TestWithoutRoot$", "-test.v")
	child.Dir, child.Env = dir, []string{"PODDIR_TEST_AS_NOBODY=" + filepath.Join(dir, "work")}
	child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := child.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestWithoutRoot") {
		t.Errorf("err %v\n%s", err, out)
	}
}

func withoutRoot(t *testing.T, dir string) {
	s := poddir.Store{Path: filepath.Join(dir, "pods")}
	volume, err := emptyDir(s, "u", "v", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.MakeVolume("u", poddir.VolumeDir{Plugin: poddir.EmptyDir, Name: "m", Memory: true}); !errors.Is(err, poddir.ErrNoMounts) {
		t.Errorf("memory: %v", err)
	}
	held := poddir.SubPath{Volume: "v", Host: volume, Container: "app", Path: "a"}
	if _, err := s.OpenAndHold("u", held); !errors.Is(err, poddir.ErrNoMounts) {
		t.Errorf("sub-path: %v", err)
	}
	if _, err := emptyDir(s, "u", "g", ptr.To[int64](1)); err == nil || !strings.Contains(err.Error(), "fsGroup 1") {
		t.Errorf("fsGroup: %v", err)
	}
	if _, err := poddir.Publish(t.Context(), volume, "..1", map[string]poddir.File{"f": text("x")}, nil, nil); err != nil {
		t.Error(err)
	}
	if err := s.Remove(t.Context(), "u"); err != nil {
		t.Error(err)
	}
}
