package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/durable"
)

// tempPrefix marks files that are being written, asideSuffix damaged files that were set aside.
const (
	tempPrefix  = ".tmp-"
	asideSuffix = ".corrupt"
)

// maxAside is how many damaged files a load keeps of those that earlier ones set aside.
const maxAside = 64

// Files is a [Store] of one file per pod. Methods are safe for concurrent use.
type Files struct {
	fs FS

	mu sync.Mutex // one operation at a time
	// seals are the keys.
	seals seals
	// refused holds the files that wait for their key, by the name of their record.
	refused map[string][]string
	// readOnly holds the names whose records are of a newer version.
	readOnly map[string]bool
	// aside holds the names whose damaged files were set aside.
	aside map[string]bool
	// moved are the damaged files that a load set aside before it failed: the next one reports them.
	moved []Bad
	// unsynced: files were removed, and the folder has not been synced since.
	unsynced bool
	// reserved: there is a reserve.
	reserved bool

	written, bytes atomic.Int64
}

// NewFiles returns a store in a folder. It does not touch the folder yet.
func NewFiles(folder FS) *Files {
	return &Files{fs: folder, readOnly: map[string]bool{}, refused: map[string][]string{}, aside: map[string]bool{}}
}

var _ Store = (*Files)(nil)

// Written returns how many record files were written, and their total size.
func (s *Files) Written() (files, bytes int64) { return s.written.Load(), s.bytes.Load() }

// Load reads all records. It removes files that were cut off in the middle of a write, and sets
// damaged ones aside; of those that were set aside before, it keeps the newest 64. It fails if open
// files or memory run out: a file that cannot be read then may be in order.
func (s *Files) Load(ctx context.Context) (Loaded, error) { return s.load(ctx, true) }

// Inspect reads all records and changes nothing; it may run beside a running agent.
func (s *Files) Inspect(ctx context.Context) (Loaded, error) { return s.load(ctx, false) }

func (s *Files) load(ctx context.Context, repair bool) (Loaded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, err := s.fs.List()
	if err != nil {
		return Loaded{}, fmt.Errorf("list the checkpoints: %w", err)
	}
	l := loading{Files: s, repair: repair, good: map[string]bool{}, stays: map[string]bool{}}
	if repair {
		l.out.Bad, s.moved = s.moved, nil
	}
	err = l.all(ctx, entries)
	if l.changed {
		_ = s.fs.SyncDir() // otherwise repeated after the next start
	}
	if err != nil {
		if repair {
			s.moved = slices.DeleteFunc(l.out.Bad, func(b Bad) bool { return !strings.HasSuffix(b.Aside, asideSuffix) })
		}
		return Loaded{}, err
	}
	return l.out, nil
}

// loading is one reading of the folder.
type loading struct {
	*Files
	repair  bool
	changed bool
	out     Loaded
	// waiting holds the files that wait for their key.
	waiting []string
	// earlier holds the damaged files that earlier loads set aside.
	earlier []fs.DirEntry
	// good holds the names that have a record, stays those of records that the disk does not return.
	good, stays map[string]bool
}

// all reads all files. It fails if it cannot tell what is in them.
func (l *loading) all(ctx context.Context, entries []fs.DirEntry) error {
	for _, e := range entries {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := l.entry(e); err != nil {
			return fmt.Errorf("checkpoint %s: %w", e.Name(), err)
		}
	}
	if l.repair {
		l.dropOldest()
		return l.refuse()
	}
	return nil
}

// dropOldest removes damaged files that earlier loads set aside, except the newest ones: the pod of such a file may never
// get another record to go with.
func (l *loading) dropOldest() {
	l.earlier = slices.DeleteFunc(l.earlier, func(e fs.DirEntry) bool { // reported as set aside now
		return slices.ContainsFunc(l.out.Bad, func(b Bad) bool { return b.Aside == e.Name() })
	})
	if len(l.earlier) <= maxAside {
		return
	}
	written := map[string]time.Time{}
	for _, e := range l.earlier {
		if info, err := e.Info(); err == nil {
			written[e.Name()] = info.ModTime()
		}
	}
	slices.SortFunc(l.earlier, func(a, b fs.DirEntry) int { return written[b.Name()].Compare(written[a.Name()]) })
	for _, e := range l.earlier[maxAside:] {
		if l.fs.Remove(e.Name()) == nil {
			l.changed = true
			delete(l.aside, strings.TrimSuffix(e.Name(), asideSuffix))
		}
	}
}

// entry reads one file, or reports what is wrong with it. It fails if it cannot tell.
func (l *loading) entry(e fs.DirEntry) error {
	name := e.Name()
	uid, plausible := recordName(name)
	switch {
	case e.Type().IsRegular() && strings.HasPrefix(name, tempPrefix):
		if l.repair {
			l.changed = l.fs.Remove(name) == nil || l.changed // otherwise the next write replaces it
		}
	case name == reserveName:
	case strings.HasSuffix(name, asideSuffix): // reported when it was set aside
		record := strings.TrimSuffix(name, asideSuffix)
		l.aside[record] = true
		if _, ours := recordName(record); ours && e.Type().IsRegular() {
			l.earlier = append(l.earlier, e)
		}
	case e.Type().IsRegular() && isRefused(name):
		l.waiting = append(l.waiting, name)
	case !plausible || !e.Type().IsRegular():
		l.out.Bad = append(l.out.Bad, Bad{Trouble: foreign, Name: name})
	default:
		r, trouble, err := l.read(name, name)
		if err == nil || errors.Is(err, fs.ErrNotExist) { // a running agent removed it meanwhile
			l.take(r)
			return nil
		}
		if durable.Scarce(err) {
			return err
		}
		bad := Bad{Trouble: trouble, Name: name, UID: uid, Err: err}
		if aside := asideName(name, trouble, err); aside != "" && l.repair && l.fs.Rename(name, aside) == nil {
			bad.Aside, l.changed = aside, true
			if isRefused(aside) {
				l.waiting = append(l.waiting, aside)
				return nil // reported by refuse, unless another file takes its place
			}
			l.aside[name] = true
		}
		l.readOnly[name], l.stays[name] = trouble == newer, trouble == unreadable
		l.out.Bad = append(l.out.Bad, bad)
	}
	return nil
}

// loadedRecord is a record as it was read from the disk.
type loadedRecord struct {
	*Record
	stale bool
}

// take adds a record to the result, if there is one.
func (l *loading) take(r loadedRecord) {
	if r.Record == nil {
		return
	}
	if dropUnknown(r.Record) {
		l.out.partial = append(l.out.partial, r.UID)
	}
	if r.stale {
		l.out.stale = append(l.out.stale, r.UID)
	}
	l.out.Records = append(l.out.Records, r.Record)
	l.good[fileName(r.UID)] = true
}

// read reads one file, which holds the record with this name.
func (s *Files) read(file, name string) (loadedRecord, Trouble, error) {
	data, err := s.fs.Read(file, maxSize+1)
	if err != nil {
		return loadedRecord{}, unreadable, err
	}
	if len(data) > maxSize {
		return loadedRecord{}, corrupt, fmt.Errorf("%w: longer than %d bytes", errCorrupt, maxSize)
	}
	r, current, err := s.seals.decode(name, data)
	var key *sealedError
	switch {
	case errors.Is(err, errNewer):
		return loadedRecord{}, newer, err
	case errors.As(err, &key):
		return loadedRecord{}, sealed, err
	case errors.Is(err, errPlain):
		return loadedRecord{}, unsealed, err
	case err != nil:
		return loadedRecord{}, corrupt, err
	}
	return loadedRecord{Record: r, stale: !current}, "", nil
}

// Write writes all records, with one sync for their contents and one for their names (CK2). On a
// full disk it gives up the reserve for them (IN4).
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

// isReadOnly reports whether a record of a newer version has the name. It looks again, because an
// operator may have removed that record. The lock is held.
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
	data, err := s.seals.encode(r)
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

// Delete removes the files of pods, also those that were set aside.
func (s *Files) Delete(_ context.Context, uids []types.UID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var problems []error
	var gone []types.UID
	for _, uid := range uids {
		removed, err := s.remove(fileName(uid))
		s.unsynced = s.unsynced || removed
		if err != nil {
			problems = append(problems, &RecordError{UID: uid, Err: err})
			continue
		}
		gone = append(gone, uid)
	}
	if !s.unsynced {
		return errors.Join(problems...)
	}
	if err := s.fs.SyncDir(); err != nil {
		for _, uid := range gone {
			problems = append(problems, &RecordError{UID: uid, Err: err})
		}
		return errors.Join(problems...)
	}
	s.unsynced = false
	return errors.Join(problems...)
}

// remove removes the files of one record, and reports whether it may have removed any. The lock is
// held.
func (s *Files) remove(name string) (removed bool, err error) {
	if s.isReadOnly(name) {
		return false, ErrReadOnly
	}
	removed = len(s.refused[name]) > 0 || s.aside[name]
	if err := s.forget(name); err != nil { // otherwise it would come back with its key
		return removed, err
	}
	if s.aside[name] {
		if err := s.fs.Remove(name + asideSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, err
		}
		delete(s.aside, name)
	}
	switch err := s.fs.Remove(name); {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return removed, nil
	default:
		return removed, err
	}
}
