package poddir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/podinfo"
)

// ErrNotPlain: a link, pipe or device stands where a folder or file should, or the
// entry was swapped while it was opened.
var ErrNotPlain = errors.New("not a plain folder or file")

// OpenDir opens the folder parent/elements... and follows no link below parent,
// not even one that stays inside: a container that has the folder mounted could
// point it at another pod's. A missing folder is [fs.ErrNotExist].
func OpenDir(parent string, elements ...string) (*os.Root, error) {
	dir, err := os.OpenRoot(parent)
	if err != nil {
		return nil, err
	}
	for _, name := range elements {
		sub, err := openChild(dir, name)
		if err := errors.Join(err, dir.Close()); err != nil {
			return nil, err
		}
		dir = sub
	}
	return dir, nil
}

// MakeDir makes the folder parent/elements... where it is missing, follows no link below parent, and then runs
// use with the folder's descriptor, if use is not nil. Anything there that is not a folder is [ErrNotPlain].
func MakeDir(parent string, mode fs.FileMode, use func(dir int) error, elements ...string) error {
	dir, err := openFolder(unix.AT_FDCWD, parent, 0)
	if errors.Is(err, unix.ENOENT) {
		if err := os.MkdirAll(parent, mode); err != nil {
			return err
		}
		dir, err = openFolder(unix.AT_FDCWD, parent, 0)
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dir) }() // it was only read
	for _, name := range elements {
		sub, err := makeChild(dir, name, mode)
		if err != nil {
			return err
		}
		_ = unix.Close(dir)
		dir = sub
	}
	if use == nil {
		return nil
	}
	return use(dir)
}

// makeChild opens the folder name in dir, made if it is missing.
func makeChild(dir int, name string, mode fs.FileMode) (int, error) {
	if err := podinfo.CheckName("directory name", name); err != nil {
		return -1, err
	}
	sub, err := openFolder(dir, name, unix.O_NOFOLLOW)
	if !errors.Is(err, unix.ENOENT) {
		return sub, err
	}
	if err := unix.Mkdirat(dir, name, uint32(mode.Perm())); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, fmt.Errorf("make %s: %w", name, err)
	}
	return openFolder(dir, name, unix.O_NOFOLLOW)
}

// RemoveIrregular removes the entry name of an open folder unless it is a regular file or missing. A folder
// that is not empty cannot be removed.
func RemoveIrregular(dir int, name string) error {
	if err := podinfo.CheckName("file name", name); err != nil {
		return err
	}
	var s unix.Stat_t
	err := unix.Fstatat(dir, name, &s, unix.AT_SYMLINK_NOFOLLOW)
	flags := 0
	switch kind := s.Mode & unix.S_IFMT; {
	case errors.Is(err, unix.ENOENT), err == nil && kind == unix.S_IFREG:
		return nil
	case err != nil:
		return fmt.Errorf("look at %s: %w", name, err)
	case kind == unix.S_IFDIR:
		flags = unix.AT_REMOVEDIR
	}
	if err := unix.Unlinkat(dir, name, flags); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

// openFolder opens the folder name below the open folder dir. Anything else there is [ErrNotPlain].
func openFolder(dir int, name string, flags int) (int, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|flags, 0)
	switch {
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		err = fmt.Errorf("%w: %w", ErrNotPlain, err)
	case err == nil:
		return fd, nil
	}
	return -1, fmt.Errorf("open %s: %w", filepath.Base(name), err)
}

// openChild opens the folder name in dir.
func openChild(dir *os.Root, name string) (*os.Root, error) {
	if err := podinfo.CheckName("directory name", name); err != nil {
		return nil, err
	}
	before, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() {
		return nil, fmt.Errorf("%s: %w", name, ErrNotPlain)
	}
	sub, err := openRoot(dir, name)
	if err != nil {
		return nil, err
	}
	after, err := sub.Stat(".")
	if err == nil && !os.SameFile(before, after) {
		err = fmt.Errorf("%s: %w", name, ErrNotPlain)
	}
	if err != nil {
		return nil, errors.Join(err, sub.Close())
	}
	return sub, nil
}

// openRoot opens the folder path below dir. The "/." makes a pipe there fail; without it, opening one
// waits for its other end.
func openRoot(dir *os.Root, path string) (*os.Root, error) { return dir.OpenRoot(path + "/.") }

// OpenRegular opens the regular file name in dir for reading. It follows no link
// and never opens a device or pipe, even if a pod puts one there meanwhile.
func OpenRegular(dir *os.Root, name string) (*os.File, error) {
	if err := podinfo.CheckName("file name", name); err != nil {
		return nil, err
	}
	found, err := dir.OpenFile(name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	info, err := found.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", name, ErrNotPlain)
	}
	// Without O_NONBLOCK, a container that holds a lease on the file delays the open.
	fd, err := unix.Open(handle(found), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), found.Name()), nil
}

// Below returns the names that lead from parent to path; both are absolute. If parent is reached by a link, path
// may begin with what the link stands for, because some runtimes (CRI-O) report paths that way. No other
// link counts: the names are for functions that follow none.
func Below(parent, path string) ([]string, error) {
	name, err := filepath.Rel(parent, path)
	if err != nil || !filepath.IsLocal(name) {
		var real string
		if real, err = filepath.EvalSymlinks(parent); err == nil {
			name, err = filepath.Rel(real, path)
		}
	}
	if err != nil || !filepath.IsLocal(name) || name == "." {
		return nil, fmt.Errorf("%s is not below %s", path, parent)
	}
	return strings.Split(name, string(filepath.Separator)), nil
}

// OpenFile opens a regular file below parent for reading; path is absolute. It
// follows no link below parent.
func OpenFile(parent, path string) (*os.File, error) {
	elements, err := Below(parent, path)
	if err != nil {
		return nil, err
	}
	dir, err := OpenDir(parent, elements[:len(elements)-1]...)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return OpenRegular(dir, elements[len(elements)-1])
}

// RemoveFiles removes the files in the folder parent/elements... whose name match
// chooses. It follows no link. It succeeds if there is no folder.
func RemoveFiles(parent string, elements []string, match func(name string) bool) error {
	dir, err := OpenDir(parent, elements...)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := Names(dir)
	problems := []error{err}
	for _, name := range names {
		if match(name) {
			if err := dir.Remove(name); !errors.Is(err, fs.ErrNotExist) {
				problems = append(problems, err)
			}
		}
	}
	return errors.Join(problems...)
}

// Names lists a folder.
func Names(dir *os.Root) ([]string, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	return names, errors.Join(err, f.Close())
}
