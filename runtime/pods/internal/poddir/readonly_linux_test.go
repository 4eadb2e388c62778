package poddir_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

// immutableFlag is FS_IMMUTABLE_FL of the kernel.
const immutableFlag = 0x10

// HI12, IN12: a big tree that stays, because its disk is read-only or all its folders are
// immutable, does not cause an error as big as the tree, which would be logged, listed and
// kept. It is removed as soon as it can be.
func TestBigTreeThatStaysMakesNoBigError(t *testing.T) {
	root := t.TempDir()
	switch err := unix.Mount("tmpfs", root, "tmpfs", 0, ""); {
	case errors.Is(err, unix.EPERM):
		t.Skip("mounting a file system takes privileges")
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(root, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	remount := func(flags uintptr) {
		if err := unix.Mount("tmpfs", root, "", unix.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	s := poddir.Store{Path: filepath.Join(root, "pods")}
	if err := os.MkdirAll(s.Path, 0o755); err != nil {
		t.Fatal(err)
	}
	volume := filled(t, s, 3000)
	remount(unix.MS_RDONLY)
	err := s.Remove(t.Context(), "u")
	if !errors.Is(err, unix.EROFS) || len(err.Error()) > 500 {
		t.Errorf("on a read-only disk: %d bytes, %.200v", len(fmt.Sprint(err)), err)
	}
	remount(0)
	folders := []string{volume, filepath.Join(volume, "a/b/c"), filepath.Join(volume, "d")}
	immutable := func(flag int) bool {
		for _, name := range folders {
			f, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flag)
			f.Close()
			if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPERM) {
				return false
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return true
	}
	if immutable(immutableFlag) {
		err = s.Remove(t.Context(), "u")
		if !errors.Is(err, unix.EPERM) || len(err.Error()) > 3000 {
			t.Errorf("of immutable folders: %d bytes, %.200v", len(fmt.Sprint(err)), err)
		}
		immutable(0)
	}
	if err := s.Remove(t.Context(), "u"); err != nil || files(t, root) != 0 {
		t.Errorf("%d files are left, %v", files(t, root), err)
	}
}
