package poddir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
)

const (
	emptyDirPlugin = "kubernetes.io~empty-dir"
	dirMode        = 0o750
)

// Store is the folder of all pods. Its methods are safe for concurrent use for
// different pods.
type Store struct {
	// Path of the folder; absolute. It is made when first needed.
	Path string
}

// open returns a handle of a pod's folder, made if it is missing. Nothing
// opened below it can be outside.
func (s Store) open(uid types.UID) (*os.Root, error) {
	if err := CheckName("pod UID", string(uid)); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.Path, dirMode); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(s.Path)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := root.Mkdir(string(uid), dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return root.OpenRoot(string(uid))
}

// Make makes the pod's folder.
func (s Store) Make(uid types.UID) error {
	root, err := s.open(uid)
	if err != nil {
		return fmt.Errorf("pod directory: %w", err)
	}
	return root.Close()
}

// EmptyDir makes the folder of an emptyDir volume, or finds it, and returns its
// path. Any user may write to it; with a group the content belongs to that group.
func (s Store) EmptyDir(uid types.UID, volume string, group *int64) (string, error) {
	if err := CheckName("volume name", volume); err != nil {
		return "", err
	}
	root, err := s.open(uid)
	if err != nil {
		return "", err
	}
	defer root.Close()
	name := filepath.Join("volumes", emptyDirPlugin, volume)
	if err := root.MkdirAll(filepath.Dir(name), dirMode); err != nil {
		return "", err
	}
	err = root.Mkdir(name, 0o777)
	if err == nil {
		// The mode of Mkdir is cut by the umask.
		mode := fs.FileMode(0o777)
		if group != nil {
			if err := root.Chown(name, -1, int(*group)); err != nil {
				return "", err
			}
			mode |= fs.ModeSetgid
		}
		err = root.Chmod(name, mode)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return filepath.Join(s.Path, string(uid), name), nil
}

// TerminationFile makes the file a container writes its last words to. name must
// be fresh for every start (spec/runtime.md 12.5).
func (s Store) TerminationFile(uid types.UID, container, name string) (string, error) {
	if err := CheckName("container name", container); err != nil {
		return "", err
	}
	root, err := s.open(uid)
	if err != nil {
		return "", err
	}
	defer root.Close()
	dir := filepath.Join("containers", container)
	if err := root.MkdirAll(dir, dirMode); err != nil {
		return "", err
	}
	file := filepath.Join(dir, name)
	if err := create(root, file, nil, 0o666); err != nil {
		return "", err
	}
	return filepath.Join(s.Path, string(uid), file), nil
}

// HostsFile writes the pod's hosts file in place, so that running containers
// which have it mounted see the new content.
func (s Store) HostsFile(uid types.UID, content []byte) (string, error) {
	root, err := s.open(uid)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if err := create(root, "etc-hosts", content, 0o644); err != nil {
		return "", err
	}
	return filepath.Join(s.Path, string(uid), "etc-hosts"), nil
}

// create writes a file with exactly this mode.
func create(root *os.Root, name string, content []byte, mode fs.FileMode) (err error) {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Chmod(mode); err != nil {
		return err
	}
	_, err = f.Write(content)
	return err
}

// List returns the UIDs that have a folder. A missing parent is an empty list.
func (s Store) List() ([]types.UID, error) {
	entries, err := os.ReadDir(s.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list pod directories: %w", err)
	}
	var uids []types.UID
	for _, e := range entries {
		if e.IsDir() {
			uids = append(uids, types.UID(e.Name()))
		}
	}
	return uids, nil
}

// RemoveFiles removes the files in dir, a path below parent, whose name match
// chooses. A missing folder is success.
func RemoveFiles(parent, dir string, match func(name string) bool) error {
	root, err := os.OpenRoot(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	problems := []error{err}
	for _, name := range names {
		if match(name) {
			if err := root.Remove(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
				problems = append(problems, err)
			}
		}
	}
	return errors.Join(problems...)
}

// OpenFile opens a regular file below parent for reading; path is absolute. It
// follows no link that leads out of parent, and does not wait for a pipe's other
// end.
func OpenFile(parent, path string) (*os.File, error) {
	name, err := filepath.Rel(parent, path)
	if err != nil || !filepath.IsLocal(name) {
		return nil, fmt.Errorf("%s is not below %s", path, parent)
	}
	root, err := os.OpenRoot(parent)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
