package source

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Kinds of objects.
const (
	kindConfigMap = "ConfigMap"
	kindSecret    = "Secret"
)

// objectFile holds what is known about one file.
type objectFile struct {
	name string
	// info describes the file as it was read; nil means that the next look reads it again.
	info   os.FileInfo
	readAt time.Time

	objects map[Object]any // of the last good version
	size    int64
	err     error // the problem of the newest version, or a warning
	// changing: the file was written to while it was read.
	changing bool
}

// openObjects opens the folder, unless others may enter it (OB2).
func openObjects(path string) (*os.Root, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(".")
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = fmt.Errorf("%w: %s has the mode %#o; close it with chmod 700", ErrExposed, path, info.Mode().Perm())
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

// distrust makes the next look read a file again, whatever its timestamps say; all files if path is empty.
func (d *ObjectDir) distrust(path string) {
	d.looking.Lock()
	defer d.looking.Unlock()
	for name, f := range d.files {
		if path == "" || filepath.Base(path) == name {
			f.info = nil
		}
	}
}

// look reads the files that have changed and returns the objects that differ from the last look.
// again means that a file was being written. An error means that the folder could not be read, and
// all objects stay (OB5).
func (d *ObjectDir) look() (different []Object, again bool, err error) {
	d.looking.Lock()
	defer d.looking.Unlock()
	names := []string{}
	root, err := openObjects(d.path)
	if err == nil {
		defer func() { _ = root.Close() }() // nothing was written
		names, err = objectNames(root)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // a missing folder counts as empty (SRC3)
	}
	if err != nil {
		found := []Problem{{Path: d.path, Err: err, root: true}}
		for _, p := range d.Problems() {
			if p.Path != d.path {
				found = append(found, p)
			}
		}
		d.publish(found)
		return nil, false, err
	}
	files := make(map[string]*objectFile, len(names))
	for _, name := range names {
		f := d.files[name]
		if f == nil {
			f = &objectFile{name: name}
		}
		f.read(root, d.options.Clock.Now(), d.decoder)
		if errors.Is(f.err, fs.ErrNotExist) {
			if _, err := root.Lstat(name); err != nil {
				continue // removed since it was listed
			}
		}
		files[name] = f
		again = again || f.changing
	}
	d.files = files
	return d.merge(names), again, nil
}

// objectNames returns the names of the files to read, in order.
func objectNames(root *os.Root) ([]string, error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".yaml", ".yml", ".json":
			if !ignored(e.Name()) {
				names = append(names, e.Name())
			}
		}
	}
	if len(names) > maxObjectFiles {
		return nil, fmt.Errorf("%w: the folder has %d files, more than %d", ErrTooLarge, len(names), maxObjectFiles)
	}
	return names, nil
}

// merge combines the objects of all files and returns those that changed. Readers see the change
// as a whole (OB4). If two files define one object, the later file wins (F5).
func (d *ObjectDir) merge(names []string) (different []Object) {
	next, from := map[Object]any{}, map[Object]string{}
	var problems []Problem
	var size int64
	for _, name := range names {
		f := d.files[name]
		if f == nil {
			continue
		}
		path := filepath.Join(d.path, name)
		err := f.err
		if size += f.size; size > maxObjectsSize {
			size -= f.size
			problems = append(problems, Problem{Path: path, Err: fmt.Errorf("%w: all files together have more than %d MiB", ErrTooLarge, maxObjectsSize>>20)})
			continue
		}
		for o, object := range f.objects {
			if loser, twice := from[o]; twice {
				problems = append(problems, Problem{
					Path: filepath.Join(d.path, loser), Err: fmt.Errorf("%w: %s %s/%s is taken from %s", errTwice, o.Kind, o.Namespace, o.Name, path),
				})
			}
			next[o], from[o] = object, name
		}
		if err != nil {
			problems = append(problems, Problem{Path: path, Err: err})
		}
	}
	d.mu.Lock()
	last := d.objects
	d.objects = next
	d.mu.Unlock()
	d.publish(problems)
	for o, object := range next {
		if old, known := last[o]; !known || old != object && !reflect.DeepEqual(old, object) {
			different = append(different, o)
		}
	}
	for o := range maps.Keys(last) {
		if _, stays := next[o]; !stays {
			different = append(different, o)
		}
	}
	return different
}

// read reads the file's newest version, and keeps it if it is good.
func (f *objectFile) read(root *os.Root, now time.Time, decoder objectDecoder) {
	info, err := root.Stat(f.name)
	if err == nil && f.info != nil && sameVersion(f.info, info) && f.readAt.Sub(info.ModTime()) > trustAge {
		return
	}
	f.changing = false
	var text []byte
	if err == nil {
		text, info, err = f.load(root)
	}
	if errors.Is(err, errChanging) {
		f.changing, f.info = true, nil
		return
	}
	f.readAt, f.info = now, info
	if err != nil {
		f.info, f.err = nil, err
		return
	}
	objects, size, err := decoder.decode(text)
	if f.err = err; objects != nil {
		f.objects, f.size = objects, max(size, int64(len(text)))
	}
}

// load reads a regular file that is closed to others. The root refuses links that lead out of
// the folder.
func (f *objectFile) load(root *os.Root) ([]byte, os.FileInfo, error) {
	// Without O_NONBLOCK opening a FIFO would wait for its writer.
	file, err := root.OpenFile(f.name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = file.Close() }() // nothing was written
	return loadFile(file, maxObjectFile, func(info os.FileInfo) error {
		if info.Mode().Perm()&0o007 != 0 {
			return fmt.Errorf("%w: its mode is %#o; close it with chmod 600", ErrExposed, info.Mode().Perm())
		}
		return nil
	})
}

// dataSize is the size of an object's values.
func dataSize(object any) (n int) {
	switch o := object.(type) {
	case *v1.ConfigMap:
		for _, value := range o.Data {
			n += len(value)
		}
		for _, value := range o.BinaryData {
			n += len(value)
		}
	case *v1.Secret:
		for _, value := range o.Data {
			n += len(value)
		}
	}
	return n
}

// dataKeys returns the sorted keys of an object's values; a key of both kinds of data occurs twice.
func dataKeys(object any) []string {
	var out []string
	switch o := object.(type) {
	case *v1.ConfigMap:
		out = slices.AppendSeq(slices.Collect(maps.Keys(o.Data)), maps.Keys(o.BinaryData))
	case *v1.Secret:
		out = slices.Collect(maps.Keys(o.Data))
	}
	slices.Sort(out)
	return out
}
