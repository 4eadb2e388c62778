package poddir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// ErrNoMounts: this process may not mount anything.
var ErrNoMounts = errors.New("mounting needs root, or CAP_SYS_ADMIN")

// isMountRoot reports whether f, an open file or folder, is the root of something
// mounted. An error counts as mounted (spec/cleanup.md edge 11). The file system's server is not asked: it may be gone.
func isMountRoot(f *os.File) (bool, error) {
	var s unix.Statx_t
	err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &s)
	if err == nil && s.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return s.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
	}
	// Older kernels: read the mount table.
	path, err := os.Readlink(handle(f))
	if err != nil {
		return false, fmt.Errorf("mount check: %w", err)
	}
	table, err := os.ReadFile(mountTable)
	if err != nil {
		return false, fmt.Errorf("mount check: %w", err)
	}
	return slices.Contains(mountPoints(table), path), nil
}

// handle is a path that leads to an open file whatever happens to its name.
func handle(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// mount mounts. If that is not allowed, its error says what is needed.
func mount(source, target, kind string, flags uintptr, data string) error {
	err := unix.Mount(source, target, kind, flags, data)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return ErrNoMounts
	}
	if err != nil {
		return fmt.Errorf("mount: %w", err) // paths stay out of it (spec/runtime.md 12.1)
	}
	return nil
}

// unmount unmounts everything at name in dir; it succeeds if nothing is mounted
// there. A mount that expect does not accept stays.
func unmount(dir *os.File, name string, expect func(*os.File) error) error {
	for {
		mounted, err := checkMounted(dir, name, expect)
		if err != nil || !mounted {
			return err
		}
		err = unix.Unmount(filepath.Join(handle(dir), name), unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("unmount %s: %w, or used (%w)", name, ErrMounted, err)
		}
		if err != nil {
			return fmt.Errorf("unmount %s: %w", name, err)
		}
	}
}

// checkMounted opens name without using it: links are not followed, devices and pipes
// are not touched.
func checkMounted(dir *os.File, name string, expect func(*os.File) error) (bool, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, ignoreMissing(fmt.Errorf("open %s: %w", name, err))
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	mounted, err := isMountRoot(f)
	if err != nil || !mounted || expect == nil {
		return mounted, err
	}
	return true, expect(f)
}

// isTmpfs accepts a memory volume of the engine.
func isTmpfs(f *os.File) error {
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &s); err != nil {
		return fmt.Errorf("file system of %s: %w", f.Name(), err)
	}
	if s.Type != unix.TMPFS_MAGIC {
		return fmt.Errorf("%s: %w, and not by this agent", f.Name(), ErrMounted)
	}
	return nil
}
