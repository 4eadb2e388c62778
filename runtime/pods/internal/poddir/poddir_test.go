package poddir_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newStore(t *testing.T) poddir.Store {
	return poddir.Store{Path: filepath.Join(t.TempDir(), "pods")}
}

// emptyDir makes an emptyDir volume on disk.
func emptyDir(s poddir.Store, uid types.UID, volume string, group *int64) (string, error) {
	return s.MakeVolume(uid, poddir.VolumeDir{Plugin: poddir.EmptyDir, Name: volume, Mode: 0o777, Group: group})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Whatever the names, nothing appears outside the folder of the pods.
func TestNamesNeverEscape(t *testing.T) {
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		outer := filepath.Join(base, fmt.Sprint(n))
		s := poddir.Store{Path: filepath.Join(outer, "pods")}
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`(\.\.|/|a|\x00){0,6}`))
		uid, volume, container := name.Draw(t, "uid"), name.Draw(t, "volume"), name.Draw(t, "container")
		_, _ = emptyDir(s, types.UID(uid), volume, nil)
		_, _ = s.TerminationFile(types.UID(uid), container, "0123abcd", nil)
		_, _ = s.HostsFile(types.UID(uid), nil)
		entries, err := os.ReadDir(outer)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Name() != "pods" && e.Name() != "pods.removed" {
				t.Fatalf("entries %v", entries)
			}
		}
		if err := s.Remove(t.Context(), types.UID(uid)); err == nil {
			if left, err := s.List(); err != nil || len(left) != 0 {
				t.Fatalf("left %q, err %v", left, err)
			}
		}
	})
}

func TestEmptyDir(t *testing.T) {
	s := newStore(t)
	group := int64(os.Getgid())
	path, err := emptyDir(s, "u", "v", &group)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(s.Path, "u/volumes/kubernetes.io~empty-dir/v"); path != want {
		t.Errorf("5: path %s, want %s", path, want)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != os.ModeDir|os.ModeSetgid|0o777 {
		t.Errorf("mode %v, err %v", info.Mode(), err)
	}
	write(t, filepath.Join(path, "f"), "x")
	if again, err := emptyDir(s, "u", "v", nil); err != nil || again != path {
		t.Errorf("again: %s, err %v", again, err)
	}
	if _, err := os.Stat(filepath.Join(path, "f")); err != nil {
		t.Error("content of a container's earlier run is lost")
	}
	if info, err := os.Stat(filepath.Join(s.Path, "u")); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("5: pod directory %v, err %v", info.Mode(), err)
	}
}

// spec/cleanup.md edge 14: links are removed, what they point to stays.
func TestRemoveFollowsNoLink(t *testing.T) {
	s := newStore(t)
	outside := filepath.Join(t.TempDir(), "precious")
	write(t, filepath.Join(outside, "f"), "x")
	path, err := emptyDir(s, "u", "v", nil)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(path, "deep/er/f"), "x")
	for _, link := range []string{filepath.Join(path, "l"), filepath.Join(s.Path, "u/l"), filepath.Join(s.Path, "u/containers")} {
		if err := os.Symlink(outside, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(path, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), "u"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(outside, "f")); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(s.Path, "u")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
	if err := s.Remove(t.Context(), "u"); err != nil {
		t.Errorf("ID1: a second removal: %v", err)
	}
}

// A link in place of the pod's folder is not entered.
func TestRemoveLinkAsPod(t *testing.T) {
	s := newStore(t)
	outside := t.TempDir()
	write(t, filepath.Join(outside, "f"), "x")
	if err := os.MkdirAll(s.Path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(s.Path, "u")); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), "u"); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(filepath.Join(outside, "f")); err != nil {
		t.Error(err)
	}
	if _, err := emptyDir(s, "u", "v", nil); err == nil {
		t.Error("a volume is made through a link that leads outside")
	}
}

// spec/cleanup.md OD3 to OD5, edge 12: content of volumes that are not ours is
// never removed, and keeps the folder.
func TestRemoveKeepsForeignVolumes(t *testing.T) {
	s := newStore(t)
	if err := s.Make("u"); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(s.Path, "u/volumes/kubernetes.io~csi/pvc/data")
	write(t, data, "x")
	write(t, filepath.Join(s.Path, "u/etc-hosts"), "x")
	if err := s.Remove(t.Context(), "u"); err == nil {
		t.Error("no error")
	}
	for _, path := range []string{data, filepath.Join(s.Path, "u/etc-hosts")} {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("OD5: %v", err)
		}
	}
	if err := os.Remove(data); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), "u"); err != nil {
		t.Errorf("OD3: empty folders: %v", err)
	}
}

// spec/cleanup.md OD2, edge 17: nothing is removed below a mount point, nor
// beside one.
func TestRemoveStopsAtMounts(t *testing.T) {
	s := newStore(t)
	path, err := emptyDir(s, "u", "v", nil)
	if err != nil {
		t.Fatal(err)
	}
	source := t.TempDir()
	write(t, filepath.Join(source, "precious"), "x")
	point := filepath.Join(path, "a b") // escaped in the mount table
	if err := os.Mkdir(point, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(path, "a"), "x")
	if err := unix.Mount(source, point, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("mounting needs root: %v", err)
	}
	defer func() { _ = unix.Unmount(point, unix.MNT_DETACH) }()
	if err := s.Remove(t.Context(), "u"); !errors.Is(err, poddir.ErrMounted) {
		t.Errorf("OD2: err %v", err)
	}
	for _, path := range []string{filepath.Join(source, "precious"), filepath.Join(path, "a")} {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("OD2: %v", err)
		}
	}
	if err := unix.Unmount(point, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), "u"); err != nil {
		t.Errorf("after the unmount: %v", err)
	}
}

// spec/cleanup.md OD2: a file is a mount point like a folder, in trees whose entries are looked at one by one
// and in larger ones.
func TestRemoveStopsAtMountedFiles(t *testing.T) {
	for _, others := range []int{0, 1000} {
		t.Run(fmt.Sprint(others, " other files"), func(t *testing.T) {
			parent := t.TempDir()
			folder := filepath.Join(parent, "logs", "c")
			if err := os.MkdirAll(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			for i := range others {
				write(t, filepath.Join(folder, fmt.Sprint("a", i)), "x")
			}
			source, point := filepath.Join(t.TempDir(), "precious"), filepath.Join(folder, "point")
			write(t, source, "x")
			write(t, point, "")
			if err := unix.Mount(source, point, "", unix.MS_BIND, ""); err != nil {
				t.Skipf("mounting needs root: %v", err)
			}
			defer func() { _ = unix.Unmount(point, unix.MNT_DETACH) }()
			if err := poddir.RemoveTree(t.Context(), parent, "logs"); !errors.Is(err, poddir.ErrMounted) {
				t.Errorf("OD2: err %v", err)
			}
			if left, err := os.ReadDir(folder); err != nil || len(left) != others+1 {
				t.Errorf("OD2: %d files are left, %v; want %d", len(left), err, others+1)
			}
			if err := unix.Unmount(point, 0); err != nil {
				t.Fatal(err)
			}
			if err := poddir.RemoveTree(t.Context(), parent, "logs"); err != nil {
				t.Errorf("after the unmount: %v", err)
			}
			if _, err := os.Stat(filepath.Join(parent, "logs")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("after the unmount: %v", err)
			}
		})
	}
}

func TestHostPath(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	write(t, file, "x")
	for _, tc := range []struct {
		path string
		kind v1.HostPathType
		ok   bool
	}{
		{dir, v1.HostPathUnset, true},
		{filepath.Join(dir, "none"), v1.HostPathUnset, true},
		{dir, v1.HostPathDirectory, true},
		{file, v1.HostPathDirectory, false},
		{filepath.Join(dir, "none"), v1.HostPathDirectory, false},
		{filepath.Join(dir, "made/deep"), v1.HostPathDirectoryOrCreate, true},
		{file, v1.HostPathDirectoryOrCreate, false},
		{file, v1.HostPathFile, true},
		{dir, v1.HostPathFile, false},
		{filepath.Join(dir, "made.txt"), v1.HostPathFileOrCreate, true},
		{filepath.Join(dir, "no/parent.txt"), v1.HostPathFileOrCreate, false},
		{file, v1.HostPathSocket, false},
		{"/dev/null", v1.HostPathCharDev, true},
		{"/dev/null", v1.HostPathBlockDev, false},
		{"/dev/null", v1.HostPathFile, false},
		{dir, "Cupboard", false},
		{"relative", v1.HostPathUnset, false},
		{dir + "/../x", v1.HostPathUnset, false},
	} {
		_, err := poddir.HostPath(&v1.HostPathVolumeSource{Path: tc.path, Type: ptr.To(tc.kind)})
		if (err == nil) != tc.ok {
			t.Errorf("%s as %q: err %v", tc.path, tc.kind, err)
		}
	}
	for _, made := range []string{"made/deep", "made.txt"} {
		if _, err := os.Stat(filepath.Join(dir, made)); err != nil {
			t.Error(err)
		}
	}
}

// spec/runtime.md 12.1, edge 20.
func TestSubPath(t *testing.T) {
	outer := t.TempDir()
	volume := filepath.Join(outer, "volume")
	write(t, filepath.Join(outer, "secret/key"), "x")
	write(t, filepath.Join(volume, "file"), "x")
	write(t, filepath.Join(volume, "dir/f"), "x")
	for link, to := range map[string]string{"in": "dir", "out": "../secret", "abs": filepath.Join(outer, "secret"), "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(volume, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(volume, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for sub, want := range map[string]string{
		"file": "file", "dir": "dir", "in": "dir", "in/f": "dir/f", "new/one": "new/one", "pipe": "pipe", ".": "",
		"out": "-", "abs": "-", "loop": "-", "out/key": "-", "abs/new": "-", "..": "-", "dir/../..": "-", "/dir": "-", "a/../dir": "-",
	} {
		got, err := poddir.OpenSubPath(volume, sub)
		switch {
		case want == "-":
			if err == nil {
				t.Errorf("%q gives %s", sub, got)
			} else if strings.Contains(err.Error(), outer) {
				t.Errorf("edge 20: the error tells the host path: %v", err)
			}
		case err != nil || got != filepath.Join(volume, want):
			t.Errorf("%q gives %s, err %v", sub, got, err)
		}
	}
	if _, err := os.Stat(filepath.Join(outer, "secret/new")); err == nil {
		t.Error("a folder was made outside")
	}
}

func TestOpenFile(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "in/f"), "x")
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := poddir.OpenFile(dir, filepath.Join(dir, "in/f"))
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	for _, bad := range []string{"/etc/passwd", filepath.Join(dir, "../x"), filepath.Join(dir, "pipe"), filepath.Join(dir, "in"), "in/f"} {
		if f, err := poddir.OpenFile(dir, bad); err == nil {
			f.Close()
			t.Errorf("%s is opened", bad)
		}
	}
}

// TestOldMessagesGo is 12.5: a container that restarts forever leaves a bounded number of files, and
// those of others stay.
func TestOldMessagesGo(t *testing.T) {
	s := newStore(t)
	count := func(path string) int {
		entries, err := os.ReadDir(filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	other, err := s.TerminationFile("u", "other", "00000000", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		path, err := s.TerminationFile("u", "c", fmt.Sprintf("%08x", i), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(path); err != nil || count(path) != min(i+1, 10) {
			t.Fatalf("12.5: start %d: %d files, the new one: %v", i, count(path), err)
		}
	}
	if count(other) != 1 {
		t.Error("12.5: another container's start takes a message")
	}
}

// TestMessagesOfContainersStay is 12.5: starts that fail take no message of a container that the runtime has, and leave few files.
func TestMessagesOfContainersStay(t *testing.T) {
	s := newStore(t)
	kept := map[string]bool{"gone": true}
	for n := range 12 {
		name := fmt.Sprintf("%08x", n)
		path, err := s.TerminationFile("u", "c", name, kept)
		if err != nil {
			t.Fatal(err)
		}
		kept[name] = true
		write(t, path, "last words")
		for i := range 30 {
			if _, err := s.TerminationFile("u", "c", fmt.Sprintf("%04x%04x", n+1, i), kept); err != nil {
				t.Fatal(err)
			}
		}
		entries, err := os.ReadDir(filepath.Dir(path))
		if err != nil || len(entries) > max(10, n+3) {
			t.Errorf("12.5: %d files, %v", len(entries), err)
		}
	}
	for name := range kept {
		text, err := os.ReadFile(filepath.Join(s.Path, "u", "containers", "c", name))
		if name != "gone" && (err != nil || string(text) != "last words") {
			t.Errorf("12.5: %s has %q, %v", name, text, err)
		}
	}
}

// A folder is made where it is missing, and no link below the parent is followed.
func TestMakeDirFollowsNoLink(t *testing.T) {
	parent, outside := filepath.Join(t.TempDir(), "a", "logs"), t.TempDir()
	if err := poddir.MakeDir(parent, 0o750, nil, "pod", "c"); err != nil {
		t.Fatal(err)
	}
	if err := poddir.MakeDir(parent, 0o750, nil, "pod", "c"); err != nil {
		t.Errorf("a second time: %v", err)
	}
	if info, err := os.Stat(filepath.Join(parent, "pod", "c")); err != nil || !info.IsDir() {
		t.Errorf("%v, %v", info, err)
	}
	write(t, filepath.Join(parent, "file"), "x")
	for _, name := range []string{"link", "loop"} {
		target := map[string]string{"link": outside, "loop": "loop"}[name]
		if err := os.Symlink(target, filepath.Join(parent, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"link", "loop", "file"} {
		if err := poddir.MakeDir(parent, 0o750, nil, name, "c"); !errors.Is(err, poddir.ErrNotPlain) {
			t.Errorf("%s: %v, want ErrNotPlain", name, err)
		}
	}
	for _, name := range []string{"..", ".", "a/b", ""} {
		if err := poddir.MakeDir(parent, 0o750, nil, name); err == nil {
			t.Errorf("%q was accepted", name)
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("outside: %v, %v", left, err)
	}
}

// Whatever is in the place of a log is removed, unless it is a log.
func TestRemoveIrregular(t *testing.T) {
	parent := t.TempDir()
	write(t, filepath.Join(parent, "0.log"), "x")
	write(t, filepath.Join(parent, "target"), "x")
	if err := errors.Join(
		os.Symlink("target", filepath.Join(parent, "1.log")), os.Mkdir(filepath.Join(parent, "2.log"), 0o755),
		os.MkdirAll(filepath.Join(parent, "3.log", "full"), 0o755), unix.Mkfifo(filepath.Join(parent, "4.log"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	for i, left := range []bool{true, false, false, true, false, false} {
		name := fmt.Sprint(i, ".log")
		err := poddir.MakeDir(parent, 0o755, func(dir int) error { return poddir.RemoveIrregular(dir, name) })
		if _, missing := os.Lstat(filepath.Join(parent, name)); (missing == nil) != left || (err != nil) != (name == "3.log") {
			t.Errorf("%s: %v, %v", name, err, missing)
		}
	}
	if _, err := os.Stat(filepath.Join(parent, "target")); err != nil {
		t.Error(err)
	}
}
