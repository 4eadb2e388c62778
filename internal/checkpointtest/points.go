package checkpointtest

import (
	"io/fs"

	"github.com/podwright/podwright/status/checkpoint"
)

// Op is one operation that changes a disk.
type Op struct {
	// Kind is write, sync, rename, remove or syncdir.
	Kind string
	// Name of the file: the new one for a rename, the first one for a sync.
	Name string
	// Files is how many files a sync covers.
	Files int
}

// Points is a disk on which every changing operation passes two points. A hook that returns an
// error makes the operation fail: before it, nothing has been done; after it, everything has. A
// hook that does not return, because it ends the process or its goroutine, is a crash at that
// point. Nil hooks do nothing. Hooks are called from one goroutine at a time.
type Points struct {
	FS            checkpoint.FS
	Before, After func(Op) error
	// OnRead, if not nil, is called before each List and Read, which return its error.
	OnRead func(name string) error
}

var _ checkpoint.FS = (*Points)(nil)

func (p *Points) do(op Op, act func() error) error {
	if p.Before != nil {
		if err := p.Before(op); err != nil {
			return err
		}
	}
	if err := act(); err != nil {
		return err
	}
	if p.After != nil {
		return p.After(op)
	}
	return nil
}

// List implements [checkpoint.FS].
func (p *Points) List() ([]fs.DirEntry, error) {
	if p.OnRead != nil {
		if err := p.OnRead(""); err != nil {
			return nil, err
		}
	}
	return p.FS.List()
}

// Read implements [checkpoint.FS].
func (p *Points) Read(name string, limit int64) ([]byte, error) {
	if p.OnRead != nil {
		if err := p.OnRead(name); err != nil {
			return nil, err
		}
	}
	return p.FS.Read(name, limit)
}

// Write implements [checkpoint.FS].
func (p *Points) Write(name string, data []byte) error {
	return p.do(Op{Kind: "write", Name: name}, func() error { return p.FS.Write(name, data) })
}

// Sync implements [checkpoint.FS].
func (p *Points) Sync(names []string) error {
	op := Op{Kind: "sync", Files: len(names)}
	if len(names) > 0 {
		op.Name = names[0]
	}
	return p.do(op, func() error { return p.FS.Sync(names) })
}

// Rename implements [checkpoint.FS].
func (p *Points) Rename(from, to string) error {
	return p.do(Op{Kind: "rename", Name: to}, func() error { return p.FS.Rename(from, to) })
}

// Remove implements [checkpoint.FS].
func (p *Points) Remove(name string) error {
	return p.do(Op{Kind: "remove", Name: name}, func() error { return p.FS.Remove(name) })
}

// SyncDir implements [checkpoint.FS].
func (p *Points) SyncDir() error {
	return p.do(Op{Kind: "syncdir"}, p.FS.SyncDir)
}
