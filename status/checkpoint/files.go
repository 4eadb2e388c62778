package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
)

// tempPrefix marks files that are being written, asideSuffix those set aside.
const (
	tempPrefix  = ".tmp-"
	asideSuffix = ".corrupt"
)

// Files is a [Store] of one file per pod. Methods are safe for concurrent use.
type Files struct {
	fs FS

	mu sync.Mutex // one operation at a time
	// readOnly are names that hold records of a newer version.
	readOnly map[string]bool
	// reserved: there is a reserve.
	reserved bool

	written, bytes atomic.Int64
}

// NewFiles returns a store in a folder. It touches nothing yet.
func NewFiles(folder FS) *Files { return &Files{fs: folder, readOnly: map[string]bool{}} }

var _ Store = (*Files)(nil)

// Written returns how many record files were written, and their size in sum.
func (s *Files) Written() (files, bytes int64) { return s.written.Load(), s.bytes.Load() }

// Load reads all records. Files cut off in the middle of a write are removed,
// damaged ones set aside.
func (s *Files) Load(ctx context.Context) (Loaded, error) { return s.load(ctx, true) }

// Inspect reads all records and changes nothing, also beside a running agent.
func (s *Files) Inspect(ctx context.Context) (Loaded, error) { return s.load(ctx, false) }

func (s *Files) load(ctx context.Context, repair bool) (Loaded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, err := s.fs.List()
	if err != nil {
		return Loaded{}, fmt.Errorf("list the checkpoints: %w", err)
	}
	var out Loaded
	changed := false
	for _, e := range entries {
		if ctx.Err() != nil {
			return Loaded{}, context.Cause(ctx)
		}
		name := e.Name()
		uid, plausible := recordName(name)
		switch {
		case e.Type().IsRegular() && strings.HasPrefix(name, tempPrefix):
			if repair {
				changed = s.fs.Remove(name) == nil || changed // otherwise the next write replaces it
			}
			continue
		case name == reserveName, strings.HasSuffix(name, asideSuffix): // reported when it was set aside
			continue
		case !plausible || !e.Type().IsRegular():
			out.Bad = append(out.Bad, Bad{Trouble: foreign, Name: name})
			continue
		}
		r, trouble, err := s.read(name)
		if err == nil {
			if dropUnknown(r) {
				out.partial = append(out.partial, r.UID)
			}
			out.Records = append(out.Records, r)
			continue
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile, by a running agent
		}
		bad := Bad{Trouble: trouble, Name: name, UID: uid, Err: err}
		switch {
		case trouble == newer:
			s.readOnly[name] = true
		case repair && s.fs.Rename(name, name+asideSuffix) == nil:
			bad.Aside, changed = name+asideSuffix, true
		}
		out.Bad = append(out.Bad, bad)
	}
	if changed {
		_ = s.fs.SyncDir() // done again after the next start otherwise
	}
	return out, nil
}

// read reads one record.
func (s *Files) read(name string) (*Record, Trouble, error) {
	data, err := s.fs.Read(name, maxSize+1)
	if err != nil {
		return nil, unreadable, err
	}
	if len(data) > maxSize {
		return nil, corrupt, fmt.Errorf("%w: longer than %d bytes", errCorrupt, maxSize)
	}
	r, err := decode(data)
	switch {
	case errors.Is(err, errNewer):
		return nil, newer, err
	case err != nil:
		return nil, corrupt, err
	case fileName(r.UID) != name:
		return nil, corrupt, fmt.Errorf("%w: the record of another pod", errCorrupt)
	}
	return r, "", nil
}

// Write writes all records, with one sync of their contents and one of their names
// (CK2). On a full disk it gives up the reserve for them (IN4).
func (s *Files) Write(ctx context.Context, records []*Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.write(ctx, records)
	if s.giveUpReserve(err) {
		err = s.write(ctx, records)
	}
	return err
}

func (s *Files) write(ctx context.Context, records []*Record) error {
	var problems []error
	fail := func(r *Record, err error) { problems = append(problems, &RecordError{UID: r.UID, Err: err}) }

	var written []*Record
	var temps []string
	for _, r := range records {
		if err := s.writeTemp(ctx, r); err != nil {
			fail(r, err)
			continue
		}
		written, temps = append(written, r), append(temps, tempPrefix+fileName(r.UID))
	}
	if len(written) == 0 {
		return errors.Join(problems...)
	}
	if err := s.fs.Sync(temps); err != nil {
		for i, r := range written {
			_ = s.fs.Remove(temps[i])
			fail(r, fmt.Errorf("sync: %w", err))
		}
		return errors.Join(problems...)
	}
	var renamed []*Record
	for i, r := range written {
		if err := s.fs.Rename(temps[i], fileName(r.UID)); err != nil {
			_ = s.fs.Remove(temps[i])
			fail(r, err)
			continue
		}
		renamed = append(renamed, r)
	}
	if err := s.fs.SyncDir(); err != nil {
		for _, r := range renamed {
			fail(r, err)
		}
	}
	return errors.Join(problems...)
}

// isReadOnly reports whether a record of a newer version has the name. An operator may have
// removed it since. The lock is held.
func (s *Files) isReadOnly(name string) bool {
	if !s.readOnly[name] {
		return false
	}
	if _, err := s.fs.Read(name, 1); errors.Is(err, fs.ErrNotExist) {
		delete(s.readOnly, name)
	}
	return s.readOnly[name]
}

// writeTemp writes a record beside its file.
func (s *Files) writeTemp(ctx context.Context, r *Record) error {
	name := fileName(r.UID)
	if s.isReadOnly(name) {
		return ErrReadOnly
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	data, err := encode(r)
	if err != nil {
		return err
	}
	if err := s.fs.Write(tempPrefix+name, data); err != nil {
		_ = s.fs.Remove(tempPrefix + name)
		return err
	}
	s.written.Add(1)
	s.bytes.Add(int64(len(data)))
	return nil
}

// Delete removes the files of pods.
func (s *Files) Delete(_ context.Context, uids []types.UID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var problems []error
	var removed []types.UID
	for _, uid := range uids {
		name := fileName(uid)
		if s.isReadOnly(name) {
			problems = append(problems, &RecordError{UID: uid, Err: ErrReadOnly})
			continue
		}
		switch err := s.fs.Remove(name); {
		case err == nil:
			removed = append(removed, uid)
		case !errors.Is(err, fs.ErrNotExist):
			problems = append(problems, &RecordError{UID: uid, Err: err})
		}
	}
	if len(removed) == 0 {
		return errors.Join(problems...)
	}
	if err := s.fs.SyncDir(); err != nil {
		for _, uid := range removed {
			problems = append(problems, &RecordError{UID: uid, Err: err})
		}
	}
	return errors.Join(problems...)
}
