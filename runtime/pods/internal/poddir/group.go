package poddir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// GiveToGroup gives a volume and all in it to a group, which may then write
// there, or only read: files get group permissions, and what is created in folders
// inherits the group. No link is followed. With onMismatch (the pod's
// fsGroupChangePolicy OnRootMismatch) nothing happens if the volume's root already has
// the group and the permissions.
func GiveToGroup(volume string, group int64, readOnly, onMismatch bool) error {
	root, err := os.OpenRoot(volume)
	if err != nil {
		return fmt.Errorf("fsGroup %d: %w", group, bare(err))
	}
	defer root.Close()
	// The root comes last: it shows that the rest is complete, also after a crash.
	info, err := root.Stat(".")
	if err != nil {
		return fmt.Errorf("fsGroup %d: %w", group, bare(err))
	}
	if owner, ok := groupOf(info); onMismatch && ok && owner == group && info.Mode()|groupMode(info.Mode(), readOnly) == info.Mode() {
		return nil
	}
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // removed meanwhile
		case err != nil:
			return err
		case path == "." || d.Type()&fs.ModeSymlink != 0:
			return nil
		}
		return giveTo(root, path, group, readOnly)
	})
	if err == nil {
		err = giveTo(root, ".", group, readOnly)
	}
	if err != nil {
		return fmt.Errorf("fsGroup %d: %s: %w", group, filepath.Base(volume), bare(err))
	}
	return nil
}

// giveTo changes one file or folder.
func giveTo(root *os.Root, path string, group int64, readOnly bool) error {
	if err := root.Lchown(path, -1, int(group)); err != nil {
		return err
	}
	info, err := root.Lstat(path)
	if err != nil || info.Mode()&fs.ModeSymlink != 0 {
		return err
	}
	return root.Chmod(path, info.Mode()|groupMode(info.Mode(), readOnly))
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
