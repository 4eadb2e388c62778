package tree_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/tree"
	"github.com/podwright/podwright/internal/tree/treetest"
)

// TestDeepTreeIsRemoved (IN19): a tree may be deeper than a path is long or files may be open.
// Its removal holds few descriptors and may be cut anywhere.
func TestDeepTreeIsRemoved(t *testing.T) {
	dir := t.TempDir()
	treetest.Chain(t, dir, *levels, 1)
	parent := open(t, dir)
	before := descriptors(t)
	for turn := 1; ; turn++ {
		ctx := &watched{Context: t.Context(), t: t, limit: *levels / 400}
		err := tree.Remove(ctx, parent, "deep")
		if ctx.most > before+24 {
			t.Fatalf("%d files were open, %d before", ctx.most, before)
		}
		if err == nil {
			if turn < 4 {
				t.Errorf("the removal was not cut: %d turns", turn)
			}
			break
		}
		if !errors.Is(err, context.Canceled) || turn > 20 {
			t.Fatalf("turn %d: %v", turn, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "deep")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

// TestTreeDeepInAllPlacesIsRemoved (IN19): each of many folders is deeper than what a removal holds open.
func TestTreeDeepInAllPlacesIsRemoved(t *testing.T) {
	dir := t.TempDir()
	for i := range 40 {
		sub := filepath.Join(dir, "v", fmt.Sprint(i))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			t.Fatal(err)
		}
		treetest.Chain(t, sub, 10+5*i, 2)
	}
	if err := tree.RemovePath(t.Context(), filepath.Join(dir, "v")); err != nil {
		t.Error(err)
	}
	empty(t, dir)
}

// appendOnly is FS_APPEND_FL of linux/fs.h: not even root removes the file.
const appendOnly = 0x20

// TestWhatStaysIsNamed (IN19): a removal takes all but what is held, and says what holds it.
func TestWhatStaysIsNamed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting and protecting files need root")
	}
	dir := t.TempDir()
	at := treetest.Chain(t, dir, 40, 0)
	fd, err := unix.Openat(int(at.Fd()), "stays", unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, appendOnly); err != nil {
		t.Fatalf("the file cannot be protected: %v", err)
	}
	for i := range 30 {
		write(t, filepath.Join(dir, "deep", fmt.Sprint(i), "f"), "x")
	}
	err = tree.RemovePath(t.Context(), filepath.Join(dir, "deep"))
	contains(t, err, "remove deep: ", "unlink stays: operation not permitted")
	if left, _ := os.ReadDir(filepath.Join(dir, "deep")); len(left) != 1 {
		t.Errorf("%d entries are left besides those above the file", len(left))
	}
	if err := unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, 0); err != nil {
		t.Fatal(err)
	}
	if err := tree.RemovePath(t.Context(), filepath.Join(dir, "deep")); err != nil {
		t.Error(err)
	}
	empty(t, dir)
}

// TestMountIsNotCrossed (ND1, IN19): what is mounted in a tree stays as it is, also deep in it and
// of the same file system; all else goes.
func TestMountIsNotCrossed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting and protecting files need root")
	}
	for _, depth := range []int{1, 60} {
		t.Run(fmt.Sprint(depth), func(t *testing.T) {
			dir, outside := t.TempDir(), t.TempDir()
			write(t, filepath.Join(outside, "precious"), "x")
			write(t, filepath.Join(dir, "deep", "f"), "x")
			at := treetest.Chain(t, dir+"/deep", depth, 1)
			if err := unix.Mkdirat(int(at.Fd()), "mnt", 0o755); err != nil {
				t.Fatal(err)
			}
			target := fmt.Sprintf("/proc/self/fd/%d/mnt", at.Fd())
			if err := unix.Mount(outside, target, "", unix.MS_BIND, ""); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := unix.Unmount(target, 0); err != nil {
					t.Error(err)
				}
			})
			err := tree.RemovePath(t.Context(), filepath.Join(dir, "deep"))
			if !errors.Is(err, tree.ErrMounted) {
				t.Errorf("error %v", err)
			}
			contains(t, err, "mnt")
			if _, err := os.Stat(filepath.Join(outside, "precious")); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "deep", "f")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a file beside it: %v", err)
			}
		})
	}
}

// TestMountPointIsNotRemoved (ND1): the entry itself is mounted.
func TestMountPointIsNotRemoved(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting and protecting files need root")
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "mnt"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", filepath.Join(dir, "mnt"), "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(filepath.Join(dir, "mnt"), 0); err != nil {
			t.Error(err)
		}
	}()
	write(t, filepath.Join(dir, "mnt", "f"), "x")
	if err := tree.RemovePath(t.Context(), filepath.Join(dir, "mnt")); !errors.Is(err, tree.ErrMounted) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "mnt", "f")); err != nil {
		t.Error(err)
	}
}

// TestChangingTreeIsRemovedAlone (ND1, IN19): while a tree is removed something in it exchanges folders for links
// that lead out, moves folders up and down and makes new ones. Nothing outside goes.
func TestChangingTreeIsRemovedAlone(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	for i := range 50 {
		write(t, filepath.Join(outside, fmt.Sprint(i), "a", "b", "precious"), "x")
	}
	volume := filepath.Join(dir, "v")
	var moves atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := range 500 {
			sub := filepath.Join(volume, fmt.Sprint(i%50))
			_ = os.MkdirAll(filepath.Join(sub, "a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t"), 0o755)
			link := filepath.Join(volume, fmt.Sprint("link", i%50))
			_ = os.Symlink(filepath.Join(outside, fmt.Sprint(i%50)), link)
			if unix.Renameat2(unix.AT_FDCWD, sub, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE) == nil {
				moves.Add(1)
			}
			_ = os.Rename(filepath.Join(link, "a/b/c"), filepath.Join(volume, fmt.Sprint("up", i)))
			_ = os.Rename(filepath.Join(volume, fmt.Sprint("up", i)), filepath.Join(link, "a", "again"))
		}
	}()
	for running := true; running; {
		_ = tree.RemovePath(t.Context(), volume) // it may find new entries at any time
		select {
		case <-ended:
			running = false
		default:
		}
	}
	if moves.Load() == 0 {
		t.Error("nothing was moved")
	}
	if err := tree.RemovePath(t.Context(), volume); err != nil {
		t.Errorf("in the end: %v", err)
	}
	empty(t, dir)
	for i := range 50 {
		if _, err := os.Stat(filepath.Join(outside, fmt.Sprint(i), "a", "b", "precious")); err != nil {
			t.Error(err)
		}
	}
}

// TestGrowingFolderEndsTheTurn (IN19): a folder that never becomes empty holds nothing up forever.
func TestGrowingFolderEndsTheTurn(t *testing.T) {
	dir := t.TempDir()
	for i := range 1000 {
		write(t, filepath.Join(dir, "v", fmt.Sprint(i)), "x")
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_ = os.WriteFile(filepath.Join(dir, "v", fmt.Sprint("new", i%100)), nil, 0o600)
			}
		}
	}()
	err := tree.RemovePath(t.Context(), filepath.Join(dir, "v"))
	close(stop)
	<-ended
	if err != nil {
		contains(t, err, "it grows while it is removed")
	}
	if err := tree.RemovePath(t.Context(), filepath.Join(dir, "v")); err != nil {
		t.Errorf("in the end: %v", err)
	}
	empty(t, dir)
}

// TestOnlyFoldersGo (OD3, OD9): where data must stay nothing is changed, and depth is no way around that.
func TestOnlyFoldersGo(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"v/a/b/c", "v/d"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	parent := open(t, dir)
	if err := tree.RemoveEmpty(t.Context(), parent, "v"); err != nil {
		t.Error(err)
	}
	empty(t, dir)
	write(t, filepath.Join(dir, "v/a/data"), "x")
	err := tree.RemoveEmpty(t.Context(), parent, "v")
	if !errors.Is(err, tree.ErrLeftover) {
		t.Errorf("error %v", err)
	}
	contains(t, err, "v/a/data, last changed 20")
	treetest.Chain(t, filepath.Join(dir, "v/a"), 5000, 0)
	before := descriptors(t)
	ctx := &watched{Context: t.Context(), t: t}
	if err := tree.RemoveEmpty(ctx, parent, "v"); !errors.Is(err, tree.ErrLeftover) {
		t.Errorf("deep: %v", err)
	}
	if left := descriptors(t); left != before {
		t.Errorf("%d files are open, %d before", left, before)
	}
	names, err := os.ReadDir(filepath.Join(dir, "v"))
	if err != nil || len(names) != 1 || names[0].Name() != "a" {
		t.Errorf("the tree was changed: %v, %v", names, err)
	}
}

// TestWithoutRootLockedFoldersGo (IN19): an agent that is not root removes what its containers protected.
func TestWithoutRootLockedFoldersGo(t *testing.T) {
	dir := t.TempDir()
	volume := filepath.Join(dir, "v")
	write(t, filepath.Join(volume, "a", "b", "f"), "x")
	at := treetest.Chain(t, volume, 20, 1)
	for path, mode := range map[string]os.FileMode{"a/b": 0o000, "a": 0o500, "deep": 0o400} {
		if err := os.Chmod(filepath.Join(volume, path), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := at.Chmod(0); err != nil {
		t.Fatal(err)
	}
	const user = 65534
	if os.Geteuid() == 0 {
		err := filepath.Walk(filepath.Dir(dir), func(path string, _ os.FileInfo, err error) error {
			return errors.Join(err, os.Lchown(path, user, user))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its user
		if os.Geteuid() == 0 {
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, user, user, user); errno != 0 {
				ended <- errno
				return
			}
		}
		ended <- tree.RemovePath(t.Context(), volume)
	}()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	empty(t, dir)
}

// TestRemoveIsRepeatable (ID1): what is not there is removed; a link goes, not its target; a missing parent is
// no error, and a context that has ended does nothing.
func TestRemoveIsRepeatable(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "precious"), "x")
	if err := os.Symlink(outside, filepath.Join(dir, "l")); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tree.RemovePath(ended, filepath.Join(dir, "l")); !errors.Is(err, context.Canceled) {
		t.Errorf("ended: %v", err)
	}
	for _, path := range []string{"l", "l", "none", "none/none"} {
		if err := tree.RemovePath(t.Context(), filepath.Join(dir, path)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	empty(t, dir)
	root, err := os.OpenRoot(outside)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := tree.RemoveIn(t.Context(), root, "precious"); err != nil {
		t.Error(err)
	}
	empty(t, outside)
}
