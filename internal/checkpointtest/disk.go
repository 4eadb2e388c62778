package checkpointtest

import (
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/podwright/podwright/status/checkpoint"
)

// Disk is a folder in memory that knows what would survive a loss of power:
// contents since their last Sync, names since the last SyncDir. The zero value is
// an empty folder. Methods are safe for concurrent use.
type Disk struct {
	mu sync.Mutex
	// now is what programs see, safe what survives.
	now, safe map[string]*inode
}

// inode is the content of a file: as written, and as far as it is synced.
type inode struct {
	data, synced []byte
	mode         fs.FileMode
}

var _ checkpoint.FS = (*Disk)(nil)

// LosePower returns the disk as it is after a loss of power now. What was not synced may or may not
// have reached it: kept decides, name by name, first for names and then for contents; a nil kept
// loses all of it.
func (d *Disk) LosePower(kept func(name string) bool) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	if kept == nil {
		kept = func(string) bool { return false }
	}
	out := &Disk{now: map[string]*inode{}}
	for _, name := range slices.Sorted(maps.Keys(union(d.now, d.safe))) {
		node := d.safe[name]
		if d.now[name] != node && kept(name) {
			node = d.now[name]
		}
		if node == nil {
			continue
		}
		data := node.synced
		if string(data) != string(node.data) && kept(name) {
			data = node.data
		}
		out.now[name] = &inode{data: slices.Clone(data), synced: slices.Clone(data), mode: node.mode}
	}
	out.safe = maps.Clone(out.now)
	return out
}

func union(a, b map[string]*inode) map[string]*inode {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]*inode{}
	}
	maps.Copy(out, b)
	return out
}

// Put places a durable file from outside. A mode with a type bit makes it something other than a
// regular file.
func (d *Disk) Put(name string, data []byte, mode fs.FileMode) {
	d.mu.Lock()
	defer d.mu.Unlock()
	node := &inode{data: slices.Clone(data), synced: slices.Clone(data), mode: mode}
	d.now, d.safe = union(d.now, nil), union(d.safe, nil)
	d.now[name], d.safe[name] = node, node
}

// Names returns the names that programs see, sorted.
func (d *Disk) Names() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.now))
}

// List implements [checkpoint.FS].
func (d *Disk) List() ([]fs.DirEntry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []fs.DirEntry
	for _, name := range slices.Sorted(maps.Keys(d.now)) {
		out = append(out, entry{name, d.now[name].mode})
	}
	return out, nil
}

// Read implements [checkpoint.FS].
func (d *Disk) Read(name string, limit int64) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	node := d.now[name]
	if node == nil {
		return nil, missing("open", name)
	}
	return slices.Clone(node.data[:min(limit, int64(len(node.data)))]), nil
}

// Write implements [checkpoint.FS].
func (d *Disk) Write(name string, data []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = union(d.now, nil)
	if node := d.now[name]; node != nil {
		node.data = slices.Clone(data)
		return nil
	}
	d.now[name] = &inode{data: slices.Clone(data)}
	return nil
}

// Sync implements [checkpoint.FS].
func (d *Disk) Sync(names []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range names {
		node := d.now[name]
		if node == nil {
			return missing("sync", name)
		}
		node.synced = slices.Clone(node.data)
	}
	return nil
}

// Rename implements [checkpoint.FS].
func (d *Disk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	node := d.now[from]
	if node == nil {
		return missing("rename", from)
	}
	delete(d.now, from)
	d.now[to] = node
	return nil
}

// Remove implements [checkpoint.FS].
func (d *Disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now[name] == nil {
		return missing("remove", name)
	}
	delete(d.now, name)
	return nil
}

// SyncDir implements [checkpoint.FS].
func (d *Disk) SyncDir() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.safe = maps.Clone(d.now)
	return nil
}

func missing(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist} }

// entry is a directory entry.
type entry struct {
	name string
	mode fs.FileMode
}

func (e entry) Name() string               { return e.name }
func (e entry) IsDir() bool                { return e.mode.IsDir() }
func (e entry) Type() fs.FileMode          { return e.mode.Type() }
func (e entry) Info() (fs.FileInfo, error) { return info(e), nil }

// info holds what is known of a file beyond its name.
type info entry

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return 0 }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }
