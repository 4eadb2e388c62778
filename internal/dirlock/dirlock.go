package dirlock

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrInUse is returned by [Acquire] while another holder has the lock.
var ErrInUse = errors.New("the folder is in use by another engine")

// fileName is the lock's file below the locked folder. It is never removed:
// removing it would let two holders lock two different files.
const fileName = ".lock"

// Lock is a held lock.
type Lock struct{ file *os.File }

// Acquire locks dir, which must exist, without waiting, and writes the owner into the lock file.
func Acquire(dir, owner string) (*Lock, error) {
	path := filepath.Join(dir, fileName)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		// On a disk that cannot be written, an existing lock file will do and, without one, the
		// folder itself.
		var openErr error
		if f, openErr = os.Open(path); errors.Is(openErr, fs.ErrNotExist) {
			f, openErr = os.Open(dir)
		}
		if openErr == nil {
			err = nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
	}
	// On a disk that cannot be written, the owner is not recorded; see [Holder].
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(owner), 0)
	}
	return &Lock{file: f}, nil
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
		return "", false
	}
	defer func() { _ = f.Close() }() // closing also gives up the shared lock, if it was free
	if !errors.Is(lockShared(f), ErrInUse) {
		return "", false
	}
	note, err := io.ReadAll(io.LimitReader(f, maxNote))
	if err != nil {
		return "", true
	}
	return string(note), true
}

// maxNote is longer than any owner's name.
const maxNote = 4096

// Release releases the lock. The error can be ignored: the lock is gone in any case. Releasing a
// nil lock does nothing.
func (l *Lock) Release() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}
