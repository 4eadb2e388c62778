package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// NoSpace reports whether a write failed because the disk is full or its quota is used up.
func NoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Suffix ends the name of a file that is being written. A crash may leave such a file; the next
// write of the same file replaces it, and [Sweep] removes it.
const Suffix = ".tmp"

const (
	fileMode   = 0o600 // contents may be secret
	folderMode = 0o700
)

// WriteFile replaces the file at path and creates its folder if it is missing. Only the owner can
// read the file. Calls for one path must not overlap.
func WriteFile(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := MakeFolder(dir); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(Write(root, filepath.Base(path), data), root.Close())
}

// MakeFolder creates a folder that only its owner can use, with all missing parents, and syncs the
// parent of each folder that it created.
func MakeFolder(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	above := filepath.Dir(path)
	if err := MakeFolder(above); err != nil {
		return err
	}
	if err := os.Mkdir(path, folderMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	root, err := os.OpenRoot(above)
	if err != nil {
		return err
	}
	return errors.Join(SyncDir(root, "."), root.Close())
}

// Write replaces the file name below root, whose folder exists. Calls for one name must not
// overlap, not even from several processes.
func Write(root *os.Root, name string, data []byte) error {
	if err := write(root, name, data); err != nil {
		return err
	}
	return SyncDir(root, path.Dir(name))
}

// WriteShared is [Write] for a file that several processes may write at the same time: each uses
// its own temporary file, and the last to finish wins. What a crash leaves stays until [Sweep].
func WriteShared(root *os.Root, name string, data []byte) error {
	for n := 0; ; n++ {
		temporary := fmt.Sprintf("%s.%d%s", name, n, Suffix)
		f, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
		if errors.Is(err, fs.ErrExist) {
			continue // used by another writer
		}
		if err != nil {
			return err
		}
		if err := finish(root, f, temporary, name, data); err != nil {
			return err
		}
		return SyncDir(root, path.Dir(name))
	}
}

func write(root *os.Root, name string, data []byte) error {
	temporary := name + Suffix
	f, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	return finish(root, f, temporary, name, data)
}

// finish fills the temporary file and gives it its name.
func finish(root *os.Root, f *os.File, temporary, name string, data []byte) error {
	_, err := f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(temporary, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(temporary))
	}
	return nil
}

// Remove removes the file name below root. A missing file is success.
func Remove(root *os.Root, name string) error {
	switch err := root.Remove(name); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return SyncDir(root, path.Dir(name))
}

// Sweep removes the temporary files that a crash left directly below root.
func Sweep(root *os.Root) error {
	entries, err := fs.ReadDir(root.FS(), ".")
	problems := []error{err}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), Suffix) && e.Type().IsRegular() {
			problems = append(problems, root.Remove(e.Name()))
		}
	}
	return errors.Join(problems...)
}

// SyncDir makes the entries of a folder below root durable: what was created, renamed or removed in it.
func SyncDir(root *os.Root, dir string) error {
	f, err := root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// CheckFolder creates a folder and proves that files can be created in it. A full, read-only or
// failing disk is not an error: it may have recovered by the first write (spec/cleanup.md CK8).
func CheckFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("cannot be created: %w", err)
	}
	f, err := os.CreateTemp(dir, ".write-test-")
	if DiskFault(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot be written: %w", err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Scarce reports whether a look failed because open files or memory ran out, which says nothing of what was looked at.
func Scarce(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// DiskFault reports whether an error comes from the state of the disk rather than from the
// configuration. An agent also starts on a full or read-only disk, to look after what is running,
// and reports what is wrong (spec/cleanup.md CK8).
func DiskFault(err error) bool {
	return errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EIO)
}
