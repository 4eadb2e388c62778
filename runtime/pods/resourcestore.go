package pods

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/durable"
	"github.com/podwright/podwright/internal/podinfo"
)

// ResourceStore keeps one small record per pod across restarts: the resources it was
// allocated and those its containers were given (spec/runtime.md 21.1). Save and
// Remove are called from many goroutines, but never concurrently for one pod. After
// they return nil, the result outlives a crash.
type ResourceStore interface {
	// Load returns every record. It is called once, before anything else.
	Load() (map[types.UID][]byte, error)
	// Save replaces a pod's record.
	Save(uid types.UID, record []byte) error
	// Remove drops a pod's record. Removing one that is not there succeeds.
	Remove(uid types.UID) error
}

// ResourceFiles is a [ResourceStore] of one file per pod.
type ResourceFiles struct {
	// Dir is the absolute path of the folder, which is made with mode 0700 when
	// first needed and should hold nothing else.
	Dir string
}

var _ ResourceStore = ResourceFiles{}

const (
	// recordSuffix follows a pod's UID in the name of its file.
	recordSuffix = ".json"
	// maxRecord bounds a record that is read.
	maxRecord = 4 << 20
)

// Load reads all files, and removes those that a crash left half-written.
func (f ResourceFiles) Load() (map[types.UID][]byte, error) {
	root, err := os.OpenRoot(f.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	_ = durable.Sweep(root) // on a disk that does not let it, the next start tries again
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	out := map[types.UID][]byte{}
	for _, e := range entries {
		uid, ok := strings.CutSuffix(e.Name(), recordSuffix)
		if !ok {
			continue
		}
		record, err := durable.Read(root, e.Name(), maxRecord)
		if err != nil {
			return nil, err
		}
		out[types.UID(uid)] = record
	}
	return out, nil
}

// open returns a handle of the folder.
func (f ResourceFiles) open(uid types.UID) (*os.Root, error) {
	if err := podinfo.CheckName("pod UID", string(uid)); err != nil {
		return nil, err
	}
	if err := podinfo.CheckName("record of the pod's resources", string(uid)+recordSuffix+durable.Suffix); err != nil {
		return nil, err
	}
	if err := durable.MakeFolder(f.Dir); err != nil {
		return nil, err
	}
	return os.OpenRoot(f.Dir)
}

// Save replaces the file as a whole.
func (f ResourceFiles) Save(uid types.UID, record []byte) error {
	root, err := f.open(uid)
	if err != nil {
		return err
	}
	defer root.Close()
	return durable.Write(root, string(uid)+recordSuffix, record)
}

// Remove deletes the file.
func (f ResourceFiles) Remove(uid types.UID) error {
	if _, err := os.Stat(f.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	root, err := f.open(uid)
	if err != nil {
		return err
	}
	defer root.Close()
	return durable.Remove(root, string(uid)+recordSuffix)
}
