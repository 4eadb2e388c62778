package offline_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// KO8: on a disk that has become read-only the cache is read; what it cannot write follows once it can. A folder that is
// open to others cannot be closed to them there, and is not used.
func TestReadOnlyDiskIsRead(t *testing.T) {
	disk := t.TempDir()
	switch err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); {
	case errors.Is(err, syscall.EPERM):
		t.Skip("mounting a file system takes privileges")
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	remount := func(flags uintptr) {
		t.Helper()
		if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(disk, "cache")
	c := open(t, dir, nil)
	c.Put(secret(0), "canary")
	flush(t, c)
	remount(syscall.MS_RDONLY)
	var l logs
	c = open(t, dir, &l)
	if got := has(c, 1); got != "0=canary" {
		t.Errorf("on a read-only disk: %q", got)
	}
	if text := l.take(); text != "" {
		t.Errorf("logs: %s", text)
	}
	c.Put(secret(1), "later")
	remount(0)
	flush(t, c)
	if got := has(open(t, dir, nil), 2); got != "0=canary 1=later" {
		t.Errorf("afterwards: %q", got)
	}

	if err := os.Chmod(dir, 0o750); err != nil { //nolint:gosec // what Open would close
		t.Fatal(err)
	}
	remount(syscall.MS_RDONLY)
	c = open(t, dir, &l)
	if text := l.take(); has(c, 1) != "" || !strings.Contains(text, "read-only file system") {
		t.Errorf("a folder that others can read: %q, logs %s", has(c, 1), text)
	}
}
