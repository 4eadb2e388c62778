// Package dirlock keeps two engines off one folder: an advisory lock on a file in
// it, which the kernel drops when the process ends, however it ends.
package dirlock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrInUse is returned by [Acquire] while somebody else holds the lock.
var ErrInUse = errors.New("the folder is in use by another engine")

// fileName is the lock's file below the locked folder. It is never removed:
// removing it would let two holders lock two different files.
const fileName = ".lock"

// Lock is a held lock.
type Lock struct{ file *os.File }

// Acquire locks dir, which must exist, without waiting.
func Acquire(dir string) (*Lock, error) {
	f, err := os.OpenFile(filepath.Join(dir, fileName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
	}
	return &Lock{file: f}, nil
}

// Release gives the lock up. The error can be ignored: the lock is gone in any
// case.
func (l *Lock) Release() error { return l.file.Close() }
