package offline

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/podwright/podwright/internal/durable"
	"github.com/podwright/podwright/internal/privatedir"
	"github.com/podwright/podwright/internal/seal"
)

// Cache keeps entries on disk (KO8). Make one with [Open]. A nil cache keeps nothing. All methods are safe for
// concurrent use.
type Cache struct {
	options     Options
	keys        seal.Keys
	instruments instruments
	// write is durable.Write, or a test's.
	write func(root *os.Root, name string, data []byte) error

	mu    sync.Mutex
	files map[string]*file
	// bytes is the size of all files once everything pending is written.
	bytes int64
	// full says that an entry was left out because of MaxBytes, which is logged once: Run logs leftOut, because
	// callers of Put hold locks, and a logger may block.
	full    bool
	leftOut func()
	// failing counts the files whose last write failed; told says that this was logged.
	failing int
	told    bool
	running bool
	wake    chan struct{}
}

// file is the file of one entry. Cache.mu guards it.
type file struct {
	entry Entry
	// readable says that entry is known, and that the file contains it.
	readable bool
	size     int64
	sum      [sha256.Size]byte
	// text is waiting to be written, nil if nothing is; removed says that the file is to be removed.
	text    []byte
	removed bool
	// pause is the pause after the last failure; it ends at again.
	pause time.Duration
	again time.Time
	// unwanted says that the last Retain did not want the entry.
	unwanted bool
}

// waits reports whether something is to be done on disk.
func (f *file) waits() bool { return f.text != nil || f.removed }

// Open reads the entries in the folder. A file that cannot be used is skipped and logged. An error means that the
// options are wrong, or that another user could change the folder; a full, read-only or failing disk is no error.
func Open(o Options) (*Cache, error) {
	keys, err := o.complete()
	if err != nil {
		return nil, fmt.Errorf("kube/offline: %w", err)
	}
	c := &Cache{options: o, keys: keys, write: durable.Write, files: map[string]*file{}, wake: make(chan struct{}, 1)}
	if c.instruments, err = newInstruments(o.Meter); err != nil {
		return nil, fmt.Errorf("kube/offline: %w", err)
	}
	if err := privatedir.Check(o.Dir); err != nil {
		return nil, fmt.Errorf("kube/offline: %w", err)
	}
	err = c.load()
	if durable.DiskFault(err) {
		o.Logger.Error(err, "The offline cache cannot be read", "folder", o.Dir)
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("kube/offline: %w", err)
	}
	return c, nil
}

// within calls do in the folder, which it creates if it is missing.
func (c *Cache) within(do func(root *os.Root) error) error {
	if err := durable.MakeFolder(c.options.Dir); err != nil {
		return err
	}
	root, err := os.OpenRoot(c.options.Dir)
	if err != nil {
		return err
	}
	return errors.Join(do(root), root.Close())
}

// namedAtMost is how many skipped files are named in the log.
const namedAtMost = 20

// load reads all files.
func (c *Cache) load() error {
	return c.within(func(root *os.Root) error {
		if err := privatedir.Close(c.options.Dir); err != nil {
			return err
		}
		if err := durable.Sweep(root); err != nil {
			c.options.Logger.Error(err, "What a crash left in the offline cache cannot be removed", "folder", c.options.Dir)
		}
		entries, err := fs.ReadDir(root.FS(), ".")
		bad := 0
		for _, e := range entries {
			problem := c.loadFile(root, e.Name())
			if problem == nil {
				continue
			}
			if bad++; bad <= namedAtMost {
				c.options.Logger.Error(problem, "A file of the offline cache is left out", "folder", c.options.Dir, "file", e.Name())
			}
		}
		if bad > namedAtMost {
			c.options.Logger.Info("More files of the offline cache are left out", "folder", c.options.Dir, "files", bad)
		}
		return err
	})
}

// loadFile records one file. The error says why it is skipped.
func (c *Cache) loadFile(root *os.Root, name string) error {
	if !isFileName(name) {
		return errForeign
	}
	data, err := read(root, name)
	f := &file{size: int64(len(data))}
	c.files[name] = f // a skipped one is removed when no pod needs its entry, or replaced
	c.bytes += f.size
	if err != nil {
		return err
	}
	text, found, current, err := decode(c.keys, name, data)
	if err != nil {
		return err
	}
	f.entry, f.readable, f.sum = found.Entry, true, sha256.Sum256(text)
	if !current {
		f.text = text // sealed with an older key
	}
	return nil
}

// read reads a file that the cache may not have written, such as a pipe.
func read(root *os.Root, name string) ([]byte, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxFile:
		return nil, errForeign
	}
	data := make([]byte, info.Size())
	_, err = io.ReadFull(f, data)
	return data, err
}

// Get reads an entry into value, as json.Unmarshal does, and reports whether it exists. It reads the disk.
func (c *Cache) Get(e Entry, value any) bool {
	if c == nil {
		return false
	}
	name := e.fileName()
	c.mu.Lock()
	f := c.files[name]
	if f == nil || !f.readable || f.removed {
		c.mu.Unlock()
		return false
	}
	text := f.text
	c.mu.Unlock()
	var found document
	if text != nil {
		return json.Unmarshal(text, &found) == nil && json.Unmarshal(found.Value, value) == nil
	}
	err := c.within(func(root *os.Root) error {
		data, err := read(root, name)
		if err == nil {
			_, found, _, err = decode(c.keys, name, data)
		}
		return err
	})
	if err == nil && json.Unmarshal(found.Value, value) != nil {
		err = errForeign
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.options.Logger.Error(err, "An entry of the offline cache cannot be read", "entry", e.String(), "folder", c.options.Dir, "file", name)
	}
	return err == nil
}

// Has reports whether there is an entry. It does not block.
func (c *Cache) Has(e Entry) bool {
	if c == nil {
		return false
	}
	name := e.fileName()
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.files[name]
	return f != nil && f.readable && !f.removed
}

// Entries returns the entries of a kind, in no order.
func (c *Cache) Entries(kind string) (out []Entry) {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.files {
		if f.readable && !f.removed && f.entry.Kind == kind {
			out = append(out, f.entry)
		}
	}
	return out
}

// Put keeps a value as the JSON that it marshals to. It does not block: Run writes it. An equal
// value is not written again. The value is not retained.
func (c *Cache) Put(e Entry, value any) {
	if c == nil {
		return
	}
	raw, err := json.Marshal(value)
	if err != nil {
		c.options.Logger.Info("An entry is not kept for times without an API server: it has no JSON", "entry", e.String())
		return
	}
	text, err := json.Marshal(document{e, raw})
	if err != nil {
		return // never fails: raw is JSON, and an entry is text
	}
	name, size, sum := e.fileName(), int64(len(text)+frameSize), sha256.Sum256(text)
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.files[name]
	if f == nil {
		f = &file{}
	}
	f.unwanted = false
	if f.readable && !f.removed && f.sum == sum {
		return
	}
	if size > maxFile || c.bytes-f.size+size > c.options.MaxBytes {
		c.leaveOut(e, size)
		return
	}
	c.bytes += size - f.size
	f.entry, f.readable, f.size, f.sum, f.text, f.removed = e, true, size, sum, text, false
	c.files[name] = f
	c.signal()
}

// leaveOut records that there is no room for an entry. c.mu must be held.
func (c *Cache) leaveOut(e Entry, size int64) {
	if !c.full {
		bytes := c.bytes
		c.leftOut = func() {
			c.options.Logger.Info("The offline cache is full; pods may have to wait for an API server after a restart",
				"entry", e.String(), "size", size, "bytes", bytes, "maxBytes", c.options.MaxBytes)
		}
		c.signal()
	}
	c.full = true
}

// Remove drops an entry. It does not block: Run removes the file. A missing entry is ignored.
func (c *Cache) Remove(e Entry) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(c.files[e.fileName()])
}

// remove drops a file; nil is ignored. c.mu must be held.
func (c *Cache) remove(f *file) {
	if f == nil || f.removed {
		return
	}
	c.bytes -= f.size
	f.removed, f.text, f.size = true, nil, 0
	c.full = false
	c.signal()
}

// Retain drops the entries that are not wanted now and were not wanted in the previous call: what
// was put between two calls stays. Unusable files are removed in the same way. Call it about once a
// minute, as soon as the pods are known.
func (c *Cache) Retain(wanted func(Entry) bool) {
	if c == nil {
		return
	}
	unwanted := map[string]bool{} // collected first: wanted may take locks under which this cache is called
	for name, e := range c.snapshot() {
		if e == nil || !wanted(*e) {
			unwanted[name] = true
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, f := range c.files {
		switch {
		case !unwanted[name]:
			f.unwanted = false
		case f.unwanted:
			c.remove(f)
		default:
			f.unwanted = true
		}
	}
}

// snapshot returns the entries by file, nil for files that cannot be used.
func (c *Cache) snapshot() map[string]*Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string]*Entry, len(c.files))
	for name, f := range c.files {
		out[name] = nil
		if f.readable {
			e := f.entry
			out[name] = &e
		}
	}
	return out
}

// signal wakes Run. It does not block.
func (c *Cache) signal() {
	select {
	case c.wake <- struct{}{}:
	default: // already signaled
	}
}
