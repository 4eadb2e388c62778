package poddir

import (
	"errors"
	"io/fs"
	"os"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/durable"
	"github.com/podwright/podwright/internal/podinfo"
)

// maxRecord bounds a record that is read. Records are far smaller.
const maxRecord = 64 << 10

// Records keeps one file of the same name in each pod's folder. It is written
// whole or not at all, and on the disk when Write returns.
type Records struct {
	Store Store
	// Name of the file; one path element.
	Name string
}

// Pods lists the pods that have a folder.
func (r Records) Pods() ([]types.UID, error) { return r.Store.List() }

// Read returns a pod's record; fs.ErrNotExist if it has none.
func (r Records) Read(uid types.UID) (_ []byte, err error) {
	root, err := r.Store.existing(uid)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return durable.Read(root, r.Name, maxRecord)
}

// Write replaces a pod's record, whose folder is made if it is missing.
func (r Records) Write(uid types.UID, record []byte) error {
	root, err := r.Store.open(uid)
	if err != nil {
		return err
	}
	defer root.Close()
	return durable.Write(root, r.Name, record)
}

// Remove removes a pod's record; it succeeds if there is none.
func (r Records) Remove(uid types.UID) error {
	root, err := r.Store.existing(uid)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	return durable.Remove(root, r.Name)
}

// existing opens a pod's folder; fs.ErrNotExist if there is none.
func (s Store) existing(uid types.UID) (*os.Root, error) {
	if err := podinfo.CheckName("pod UID", string(uid)); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(s.Path)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.OpenRoot(string(uid))
}
