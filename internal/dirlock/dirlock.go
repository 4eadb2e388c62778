package dirlock

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/utils/clock"
)

// ErrInUse is returned by [Acquire] while another holder has the lock.
var ErrInUse = errors.New("the folder is in use by another engine")

// fileName is the lock's file below the locked folder. It is never removed:
// removing it would let two holders lock two different files.
const fileName = ".lock"

// Lock is a held lock.
type Lock struct{ files []*os.File }

// [Holder], or a program that tidies up folders, holds a lock only for a moment: Acquire tries so
// often, with so much time in between, before it takes it for that of another engine.
const (
	attempts = 50
	pause    = 2 * time.Millisecond
)

// Acquire locks dir, which must exist, and writes the owner into the lock file. It waits for a
// moment at most.
//
// It locks the file and the folder itself: on a disk that cannot be written there may be no file,
// and one that is made later must not let a second holder in.
func Acquire(dir, owner string) (*Lock, error) {
	l, err := take(dir)
	if err != nil {
		return nil, err
	}
	l.note(owner)
	return l, nil
}

// take locks dir without a note about the owner.
func take(dir string) (*Lock, error) {
	l := &Lock{}
	err := l.acquire(dir)
	for n := 1; n < attempts && errors.Is(err, ErrInUse); n++ {
		_ = l.Release()
		clock.RealClock{}.Sleep(pause)
		l = &Lock{}
		err = l.acquire(dir)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), l.Release())
	}
	return l, nil
}

// note writes the owner into the lock file. On a disk that cannot be written, the owner is not recorded; see [Holder].
//
// It does not sync: on a disk that does not answer, Run could not end before it has begun. A loss of power may leave no
// note or one of zeros, which count as none (see tenant).
func (l *Lock) note(owner string) {
	f := l.files[0]
	if noted, err := read(f); err == nil && noted == owner {
		return // a loss of power leaves the note as it is
	}
	if f.Truncate(0) == nil { // fails for a folder
		_, _ = f.WriteAt([]byte(owner), 0)
	}
}

// read returns the owner in a lock file.
func read(f *os.File) (string, error) {
	note, err := io.ReadAll(io.NewSectionReader(f, 0, maxNote))
	return string(note), err
}

func (l *Lock) acquire(dir string) error {
	path := filepath.Join(dir, fileName)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		f, err = os.Open(path) // an existing file will do
	}
	none := errors.Is(err, fs.ErrNotExist)
	if err != nil && !none {
		return err
	}
	if !none {
		l.files = append(l.files, f)
		if err := lock(f); err != nil {
			return err
		}
	}
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	l.files = append(l.files, folder)
	if err := lock(folder); none || errors.Is(err, ErrInUse) {
		return err
	}
	return nil // some network file systems cannot lock folders; the file will do
}

// AcquireOutside locks dir like [Acquire], unless dir is below root, whose lock covers it: two
// programs that remove unknown content from the same folder would remove each other's.
func AcquireOutside(root, dir, owner string) (*Lock, error) {
	if inside, err := filepath.Rel(root, dir); err == nil && filepath.IsLocal(inside) {
		return nil, nil
	}
	return Acquire(dir, owner)
}

// Holder returns the owner for whom dir is locked right now, "" if the holder could not record it;
// held is false if nothing holds the lock. The caller must not hold the lock itself.
func Holder(dir string) (owner string, held bool) {
	f, err := os.Open(filepath.Join(dir, fileName))
	if err != nil {
		return "", inUse(dir)
	}
	defer func() { _ = f.Close() }() // closing also gives up the shared lock, if it was free
	if !errors.Is(lockShared(f), ErrInUse) {
		return "", inUse(dir)
	}
	note, err := read(f)
	if err != nil {
		return "", true
	}
	return note, true
}

// inUse reports whether the folder itself is locked: its holder found no room for a lock file.
func inUse(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	return errors.Is(lockShared(f), ErrInUse)
}

// maxNote is longer than any owner's name.
const maxNote = 4096

// Release releases the lock. The error can be ignored: the lock is gone in any case. Releasing a
// nil lock does nothing.
func (l *Lock) Release() error {
	if l == nil {
		return nil
	}
	var problems []error
	for _, f := range l.files {
		problems = append(problems, f.Close())
	}
	return errors.Join(problems...)
}
