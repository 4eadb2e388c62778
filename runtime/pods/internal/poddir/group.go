package poddir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/tree"
)

// GiveToGroup gives a volume and everything in it to a group, which may then write there, or only
// read: files get group permissions, and what is created in folders inherits the group. No link
// is followed. With onMismatch (the pod's fsGroupChangePolicy OnRootMismatch) nothing happens if
// the volume's root already has the group and the permissions. It stops a few entries after ctx
// ends; the next call starts over.
func GiveToGroup(ctx context.Context, volume string, group int64, readOnly, onMismatch bool) error {
	root, err := openVolume(volume)
	if err != nil {
		return fmt.Errorf("fsGroup %d: %w", group, bare(err))
	}
	defer root.Close()
	info, err := root.Stat()
	if err != nil {
		return fmt.Errorf("fsGroup %d: %w", group, bare(err))
	}
	if owner, ok := groupOf(info); onMismatch && ok && owner == group && info.Mode()|groupMode(info.Mode(), readOnly) == info.Mode() {
		return nil
	}
	err = tree.Walker{Visit: func(e tree.Entry) error {
		if e.IsLink() {
			return nil
		}
		return giveEntry(e, group, readOnly)
	}}.Walk(ctx, root)
	if err == nil {
		// The root comes last: it shows that the rest is complete, even after a crash.
		err = give(root, group, readOnly)
	}
	if err != nil {
		return fmt.Errorf("fsGroup %d: %s: %w", group, filepath.Base(volume), bare(err))
	}
	return nil
}

// openVolume opens a folder that may be reached by a link.
func openVolume(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
}

// giveEntry changes a file or folder that the walk has come to. One that was removed meanwhile
// needs nothing.
func giveEntry(e tree.Entry, group int64, readOnly bool) error {
	fd, err := unix.Openat(e.Dir, e.Name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", e.Name, err)
	}
	f := os.NewFile(uintptr(fd), e.Name)
	defer f.Close()
	return give(f, group, readOnly)
}

// give changes what is open, whatever has its name now. Links stay as they are.
func give(f *os.File, group int64, readOnly bool) error {
	if err := unix.Fchownat(int(f.Fd()), "", -1, int(group), unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&fs.ModeSymlink != 0 {
		return err
	}
	// Through /proc: fchmod refuses a file that was opened with O_PATH.
	return os.Chmod(handle(f), info.Mode()|groupMode(info.Mode(), readOnly))
}

// groupMode returns the bits a group needs.
func groupMode(mode fs.FileMode, readOnly bool) fs.FileMode {
	bits := fs.FileMode(0o660)
	if readOnly {
		bits = 0o440
	}
	if mode.IsDir() {
		bits |= 0o110 | fs.ModeSetgid
	}
	return bits
}

// groupOf returns the group a file belongs to.
func groupOf(info fs.FileInfo) (int64, bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int64(stat.Gid), true
}
