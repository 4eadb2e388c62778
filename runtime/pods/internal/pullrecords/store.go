package pullrecords

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/podwright/podwright/internal/durable"
)

// Store keeps records and intents. A missing one is an fs.ErrNotExist. Writes come one at
// a time; reads may come at any time and show the state before or after a write. Writes
// are durable when they return: what is lost of an intent or a private image gives pods
// access, and half of any record keeps all pods from an image without its registry.
type Store interface {
	// Load returns the record of an image ID, Records the IDs of all.
	Load(id string) (*Record, error)
	Save(r *Record) error
	Delete(id string) error
	Records() ([]string, error)

	// AddIntent notes that an image is about to be pulled. left says that it had an intent before, even one that
	// cannot be read.
	AddIntent(image string) (left bool, err error)
	RemoveIntent(image string) error
	// Intents returns those that can be read, with an error if there may be others.
	Intents() ([]string, error)
}

// FileStore keeps one file per record and intent, below Dir, which is made when it
// is first written to. Only its owner can read them: hashes tell which pods share a
// credential.
type FileStore struct {
	// Dir is an absolute path.
	Dir string

	// replace is a test's durable.Write.
	replace func(root *os.Root, name string, data []byte) error
}

var _ Store = FileStore{}

// Folders below Dir, and the mark of a file's format.
const (
	pulledDir  = "pulled"
	pullingDir = "pulling"
	version    = 1
	// maxFile bounds what is read.
	maxFile = 1 << 20
)

// document is what a file holds.
type document struct {
	Version int     `json:"version"`
	Image   string  `json:"image,omitempty"`
	Record  *Record `json:"record,omitempty"`
}

// fileOf names the file of an image; names of images cannot be names of files.
func fileOf(folder, image string) string {
	sum := sha256.Sum256([]byte(image))
	return path.Join(folder, hex.EncodeToString(sum[:])+".json")
}

// Load implements [Store].
func (s FileStore) Load(id string) (*Record, error) {
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	d, err := read(root, fileOf(pulledDir, id))
	if err != nil {
		return nil, err
	}
	if d.Record == nil || d.Record.Image != id {
		return nil, fmt.Errorf("the record of image %s is one of another image", id)
	}
	return d.Record, nil
}

// Save implements [Store].
func (s FileStore) Save(r *Record) error {
	return s.write(fileOf(pulledDir, r.Image), document{Version: version, Record: r})
}

// Delete implements [Store].
func (s FileStore) Delete(id string) error { return s.remove(fileOf(pulledDir, id)) }

// Records implements [Store]. A file that cannot be read has no ID and stays.
func (s FileStore) Records() ([]string, error) {
	images, _, err := s.list(pulledDir, func(d document) string {
		if d.Record == nil {
			return ""
		}
		return d.Record.Image
	})
	return images, err
}

// AddIntent implements [Store].
func (s FileStore) AddIntent(image string) (left bool, err error) {
	name := fileOf(pullingDir, image)
	_, err = os.Lstat(filepath.Join(s.Dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	left = err == nil
	return left, s.write(name, document{Version: version, Image: image})
}

// RemoveIntent implements [Store].
func (s FileStore) RemoveIntent(image string) error { return s.remove(fileOf(pullingDir, image)) }

// Intents implements [Store].
func (s FileStore) Intents() ([]string, error) {
	images, unread, err := s.list(pullingDir, func(d document) string { return d.Image })
	if err = errors.Join(append(unread, err)...); err != nil {
		err = fmt.Errorf("notes of pulls in %s: %w", s.Dir, err)
	}
	return images, err
}

func read(root *os.Root, name string) (document, error) {
	f, err := root.Open(name)
	if err != nil {
		return document{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return document{}, err
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return document{}, fmt.Errorf("%s: %w", name, err)
	}
	if d.Version != version {
		return document{}, fmt.Errorf("%s: version %d is not known", name, d.Version)
	}
	return d, nil
}

// write replaces a file as a whole: a crash or a loss of power leaves the old one or the
// new one.
func (s FileStore) write(name string, d document) error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if err := durable.MakeFolder(filepath.Join(s.Dir, path.Dir(name))); err != nil {
		return err
	}
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	sweep(root, path.Dir(name))
	if s.replace != nil {
		return s.replace(root, name, text)
	}
	return durable.Write(root, name, text)
}

// sweep removes what crashes left of earlier writes to a folder. What cannot be removed waits for the next write.
func sweep(root *os.Root, folder string) {
	sub, err := root.OpenRoot(folder)
	if err != nil {
		return
	}
	defer sub.Close()
	_ = durable.Sweep(sub)
}

// remove removes a file. It succeeds if there is none.
func (s FileStore) remove(name string) error {
	root, err := os.OpenRoot(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	return durable.Remove(root, name)
}

// list returns the images that the files of a folder are about. unread says which files do not tell, and why.
func (s FileStore) list(folder string, about func(document) string) (images []string, unread []error, err error) {
	root, err := os.OpenRoot(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		name := path.Join(folder, e.Name())
		d, err := read(root, name)
		switch image := about(d); {
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile
		case err != nil:
			unread = append(unread, err)
		case image == "" || fileOf(folder, image) != name:
			unread = append(unread, fmt.Errorf("%s: it is about another image, or none", name))
		default:
			images = append(images, image)
		}
	}
	return images, unread, nil
}
