package dirlock_test

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/dirlock"
)

// On a disk without room for the lock file, the folder is locked instead.
func TestNoRoomForTheFile(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=64k,nr_inodes=1"); err != nil {
		t.Skipf("needs a mount: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	first, err := dirlock.Acquire(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dirlock.Acquire(dir, "b"); !errors.Is(err, dirlock.ErrInUse) {
		t.Errorf("%v, want ErrInUse", err)
	}
	if _, held := dirlock.Holder(dir); !held {
		t.Error("nothing seems to hold it")
	}
	if err := unix.Mount("none", dir, "", unix.MS_REMOUNT, "size=64k,nr_inodes=10"); err != nil {
		t.Fatal(err)
	}
	if _, err := dirlock.Acquire(dir, "b"); !errors.Is(err, dirlock.ErrInUse) {
		t.Errorf("once there is room: %v, want ErrInUse", err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
}
