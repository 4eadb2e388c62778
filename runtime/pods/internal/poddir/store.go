package poddir

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
)

const dirMode = 0o750

// Store is the folder of all pods. Its methods are safe for concurrent use for
// different pods.
type Store struct {
	// Path of the folder; absolute. It is made when first needed.
	Path string
}

// open returns a handle of a pod's folder, made if it is missing. Nothing
// opened below it can be outside.
func (s Store) open(uid types.UID) (*os.Root, error) {
	if err := podinfo.CheckName("pod UID", string(uid)); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(s.Path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(s.Path, dirMode); err != nil {
			return nil, err
		}
		root, err = os.OpenRoot(s.Path)
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	pod, err := root.OpenRoot(string(uid))
	if !errors.Is(err, fs.ErrNotExist) {
		return pod, err
	}
	if err := root.Mkdir(string(uid), dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return root.OpenRoot(string(uid))
}

// Make makes the pod's folder.
func (s Store) Make(uid types.UID) error {
	err := podinfo.CheckName("pod UID", string(uid))
	if err == nil {
		err = MakeDir(s.Path, dirMode, nil, string(uid))
	}
	if err != nil {
		return fmt.Errorf("pod directory: %w", err)
	}
	return nil
}

// TerminationFile makes the file for a container's termination message. name must be new
// for every start; the files of the kept names stay (spec/runtime.md 12.5).
func (s Store) TerminationFile(uid types.UID, container, name string, kept map[string]bool) (string, error) {
	if err := podinfo.CheckName("container name", container); err != nil {
		return "", err
	}
	root, err := s.open(uid)
	if err != nil {
		return "", err
	}
	defer root.Close()
	dir := filepath.Join("containers", container)
	switch err := root.Mkdir(dir, dirMode); {
	case errors.Is(err, fs.ErrNotExist):
		if err := root.MkdirAll(dir, dirMode); err != nil {
			return "", err
		}
	case errors.Is(err, fs.ErrExist):
		if err := makeRoomForMessage(root, dir, kept); err != nil {
			return "", err
		}
	case err != nil:
		return "", err
	}
	file := filepath.Join(dir, name)
	if err := create(root, file, nil, 0o666); err != nil {
		return "", err
	}
	return filepath.Join(s.Path, string(uid), file), nil
}

// HostsFile writes the pod's hosts file in place, so that running containers
// which have it mounted see the new content. The file is never empty meanwhile, and keeps
// what it can of its content if the disk is full.
func (s Store) HostsFile(uid types.UID, content []byte) (string, error) {
	root, err := s.open(uid)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if err := overwrite(root, "etc-hosts", content, 0o644); err != nil {
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

// overwrite gives a file exactly this content and mode. One that has both is not written to.
func overwrite(root *os.Root, name string, content []byte, mode fs.FileMode) (err error) {
	f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Mode() != mode {
		if err := f.Chmod(mode); err != nil {
			return err
		}
	}
	if info.Size() == int64(len(content)) {
		old := make([]byte, len(content))
		if _, err := io.ReadFull(f, old); err == nil && bytes.Equal(old, content) {
			return nil
		}
	}
	if _, err := f.WriteAt(content, 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(content)))
}

// List returns the UIDs that have a folder. A missing parent is an empty list.
func (s Store) List() ([]types.UID, error) { return listPods(os.ReadDir(s.Path)) }

// List is like [Store.List], for the folder that is listed.
func (l *Listing) List() ([]types.UID, error) { return listPods(l.Read()) }

func listPods(entries []fs.DirEntry, err error) ([]types.UID, error) {
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
