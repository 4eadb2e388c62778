package source

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
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
	// refused is the size of the newest version if the folder has no room for it, otherwise 0.
	refused int64
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
	different, fresh, again, err := d.lookAlone()
	for _, p := range fresh { // once others may look: a logger may block
		d.options.Logger.Error(p.Err, "A file of config maps and secrets has a problem", "path", p.Path)
	}
	return different, again, err
}

// lookAlone is look without the log: fresh are the problems that were not there at the last look.
func (d *ObjectDir) lookAlone() (different []Object, fresh []Problem, again bool, err error) {
	d.looking.Lock()
	defer d.looking.Unlock()
	names := []string{}
	root, err := openObjects(d.path)
	if err == nil {
		defer func() { _ = root.Close() }() // nothing was written
		names, err = objectNames(root)
	}
	if errors.Is(err, fs.ErrNotExist) {
		_, missing := stat(d.path)
		switch {
		case errors.Is(missing, errLinkToNothing):
			err = missing // a volume that is not mounted, say
		case errors.Is(missing, fs.ErrNotExist):
			err = nil // a missing folder counts as empty (SRC3)
		}
	}
	if err != nil {
		found := []Problem{{Path: d.path, Err: err, root: true}}
		for _, p := range d.Problems() {
			if p.Path != d.path {
				found = append(found, p)
			}
		}
		return nil, d.publish(found), false, err
	}
	d.files, again = d.read(root, names)
	different, fresh = d.merge(names)
	return different, fresh, again, nil
}

// read reads the files that have changed. Those with known objects come first, as in SRC6, and a
// version for which there is no room is refused, so that a file never takes away another's objects.
func (d *ObjectDir) read(root *os.Root, names []string) (files map[string]*objectFile, again bool) {
	files = make(map[string]*objectFile, len(names))
	room := int64(maxObjectsSize)
	var order, others []*objectFile
	for _, name := range names {
		f := d.files[name]
		if f == nil {
			f = &objectFile{name: name}
		}
		files[name] = f
		room -= f.size
		if f.objects != nil {
			order = append(order, f)
		} else {
			others = append(others, f)
		}
	}
	read := func(f *objectFile) {
		room += f.size
		f.read(root, d.options.Clock.Now(), d.decoder, room)
		room -= f.size
	}
	order = append(order, others...)
	for _, f := range order {
		read(f)
		if errors.Is(f.err, fs.ErrNotExist) {
			if _, err := root.Lstat(f.name); err != nil { // removed since it was listed
				delete(files, f.name)
				room += f.size
				continue
			}
		}
		again = again || f.changing
	}
	for _, f := range order { // a later file may have made room
		if f.refused > 0 && f.refused <= room+f.size {
			read(f)
			again = again || f.changing
		}
	}
	return files, again
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
func (d *ObjectDir) merge(names []string) (different []Object, fresh []Problem) {
	next, from := map[Object]any{}, map[Object]string{}
	for _, name := range names {
		if f := d.files[name]; f != nil {
			for o, object := range f.objects {
				next[o], from[o] = object, name
			}
		}
	}
	var problems []Problem
	for _, name := range names {
		if f := d.files[name]; f != nil {
			if err := errors.Join(f.err, d.overruled(f, from)); err != nil {
				problems = append(problems, Problem{Path: filepath.Join(d.path, name), Err: err})
			}
		}
	}
	d.mu.Lock()
	last := d.objects
	d.objects = next
	d.mu.Unlock()
	fresh = d.publish(problems)
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
	return different, fresh
}

// mostOverruled is how many objects an error about second definitions names.
const mostOverruled = 10

// overruled returns an error about the objects of f that a later file defines too, nil if there are
// none. Its text is the same at every look: a new text would be a new problem.
func (d *ObjectDir) overruled(f *objectFile, from map[Object]string) error {
	var lost []Object
	for o := range f.objects {
		if from[o] != f.name {
			lost = append(lost, o)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	slices.SortFunc(lost, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	var texts []string
	for _, o := range lost[:min(len(lost), mostOverruled)] {
		texts = append(texts, fmt.Sprintf("%s %s/%s is taken from %s", o.Kind, o.Namespace, o.Name, filepath.Join(d.path, from[o])))
	}
	text := strings.Join(texts, ", ")
	if more := len(lost) - len(texts); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("%w: %s", errTwice, text)
}

// only reports whether an error, or each error joined in it, is one of these.
func only(err error, these ...error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return !only(err, these...) })
	}
	return slices.ContainsFunc(these, func(one error) bool { return errors.Is(err, one) })
}

// read reads the file's newest version, and keeps it if it is good and not larger than room.
func (f *objectFile) read(root *os.Root, now time.Time, decoder objectDecoder, room int64) {
	info, err := root.Stat(f.name)
	if err == nil && f.info != nil && sameVersion(f.info, info) && f.readAt.Sub(info.ModTime()) > trustAge && (f.refused == 0 || f.refused > room) {
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
	f.readAt, f.info, f.refused = now, info, 0
	if err != nil {
		f.info, f.err = nil, err
		return
	}
	objects, size, err := decoder.decode(text)
	size = max(size, int64(len(text)))
	switch f.err = err; {
	case objects == nil:
	case size > room:
		f.err, f.refused = errNoRoom, size
	default:
		f.objects, f.size = objects, size
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
