package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/podwright/podwright/internal/durable"
)

// FS is the folder of a [Files] store: every disk operation is one call. A test that makes a write
// fail, or ends the process before or after a rename, wraps [Dir]. Names have no slash. Calls come
// from one goroutine at a time.
type FS interface {
	// List returns what is in the folder; a folder that does not exist is empty.
	List() ([]fs.DirEntry, error)
	// Read returns at most limit bytes of a file.
	Read(name string, limit int64) ([]byte, error)
	// Write creates a file that only its owner can read, or replaces its content. It need not be
	// durable.
	Write(name string, data []byte) error
	// Sync makes the contents of files durable.
	Sync(names []string) error
	// Rename gives a file another name and replaces any file that has it.
	Rename(from, to string) error
	// Remove removes a file; for a missing file it returns an error that is [fs.ErrNotExist].
	Remove(name string) error
	// SyncDir makes names durable.
	SyncDir() error
}

// Dir returns the [FS] of a real folder. The first write creates the folder with mode 0700. No name
// leads out of it.
func Dir(path string) FS { return dir(path) }

type dir string

// manyFiles is the number of files from which one sync of the file system is cheaper than one per
// file.
const manyFiles = 16

// in runs f with the folder open.
func (d dir) in(f func(*os.Root) error) error {
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return err
	}
	return errors.Join(f(root), root.Close())
}

func (d dir) List() ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

func (d dir) Read(name string, limit int64) (data []byte, err error) {
	err = d.in(func(root *os.Root) error {
		f, err := root.Open(name)
		if err != nil {
			return err
		}
		data, err = io.ReadAll(io.LimitReader(f, limit))
		return errors.Join(err, f.Close())
	})
	return data, err
}

func (d dir) Write(name string, data []byte) error {
	write := func(root *os.Root) error {
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		return errors.Join(err, f.Close())
	}
	err := d.in(write)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := durable.MakeFolder(string(d)); err != nil {
		return err
	}
	return d.in(write)
}

func (d dir) Sync(names []string) error {
	if len(names) >= manyFiles {
		err := d.in(func(root *os.Root) error {
			f, err := root.Open(".")
			if err != nil {
				return err
			}
			return errors.Join(syncFileSystem(f), f.Close())
		})
		if !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	return d.in(func(root *os.Root) error {
		errs := make([]error, len(names))
		var wg sync.WaitGroup
		turns := make(chan struct{}, manyFiles) // concurrent syncs share the disk's work
		for i, name := range names {
			wg.Go(func() {
				turns <- struct{}{}
				defer func() { <-turns }()
				errs[i] = syncFile(root, name)
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	})
}

func syncFile(root *os.Root, name string) error {
	f, err := root.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (d dir) Rename(from, to string) error {
	return d.in(func(root *os.Root) error { return root.Rename(from, to) })
}

func (d dir) Remove(name string) error {
	return d.in(func(root *os.Root) error { return root.Remove(name) })
}

func (d dir) SyncDir() error {
	if err := d.in(func(root *os.Root) error { return durable.SyncDir(root, ".") }); err != nil {
		return fmt.Errorf("sync the folder: %w", err)
	}
	return nil
}
