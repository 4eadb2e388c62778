package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/podwright/podwright/internal/durable"
)

// refusedMark is the part of the name of a file that waits for its key: it stands between the name
// of the record and the ID of the key, or plainLabel. There is one such file per record and key.
const (
	refusedMark = ".refused-"
	plainLabel  = "plain"
)

func isRefused(file string) bool {
	name, _, found := strings.Cut(file, refusedMark)
	_, plausible := recordName(name)
	return found && plausible
}

// asideName returns where to move a file that cannot be used; empty: it stays.
func asideName(name string, trouble Trouble, err error) string {
	var key *sealedError
	switch {
	case trouble == newer, trouble == unreadable: // the next start may be able to read it
		return ""
	case trouble == unsealed:
		return name + refusedMark + plainLabel
	case errors.As(err, &key):
		return name + refusedMark + key.ID
	}
	return name + asideSuffix
}

// refuse goes through the files that wait for their key. If a record has no other file, the newest
// one that can be opened takes its place; if none can, all are reported. If it has one, files that
// can be opened now and plain files are out of date and are removed.
func (l *loading) refuse() error {
	clear(l.refused)
	slices.Sort(l.waiting)
	for len(l.waiting) > 0 {
		name, _, _ := strings.Cut(l.waiting[0], refusedMark)
		n := 0
		for n < len(l.waiting) && strings.HasPrefix(l.waiting[n], name+refusedMark) {
			n++
		}
		if err := l.refusedOf(name, l.waiting[:n]); err != nil {
			return err
		}
		l.waiting = l.waiting[n:]
	}
	return nil
}

// refusedOf goes through the waiting files of one record.
func (l *loading) refusedOf(name string, files []string) error {
	if l.readOnly[name] || l.stays[name] { // a later start decides which of them counts
		l.refused[name] = slices.Clone(files)
		return nil
	}
	uid, _ := recordName(name)
	var best loadedRecord
	bestFile := ""
	var old []string
	var bad []Bad
	for _, file := range files {
		r, trouble, err := l.read(file, name)
		switch {
		case durable.Scarce(err):
			return fmt.Errorf("checkpoint %s: %w", file, err)
		case err == nil && (best.Record == nil || r.WrittenAt.After(best.WrittenAt)):
			if bestFile != "" {
				old = append(old, bestFile)
			}
			best, bestFile = r, file
		case err == nil, trouble == unsealed && l.good[name]:
			old = append(old, file)
		default:
			l.refused[name] = append(l.refused[name], file)
			bad = append(bad, Bad{Trouble: trouble, Name: name, Aside: file, UID: uid, Err: err})
		}
	}
	switch {
	case l.good[name] && bestFile != "":
		old = append(old, bestFile)
	case l.good[name]:
	case bestFile != "" && l.fs.Rename(bestFile, name) == nil:
		l.changed = true
		l.take(best)
	default:
		l.out.Bad = append(l.out.Bad, bad...)
	}
	for _, file := range old {
		l.changed = l.fs.Remove(file) == nil || l.changed // otherwise removed at the next start
	}
	return nil
}

// forget removes the files of one record that wait for a key. The lock is held.
func (s *Files) forget(name string) error {
	for _, file := range s.refused[name] {
		if err := s.fs.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	delete(s.refused, name)
	return nil
}
