//go:build unix

package dirlock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock locks the open file description, so that the lock also works between two engines of one
// process.
func lock(f *os.File) error { return flock(f, unix.LOCK_EX) }

// lockShared fails while another holder has the lock, and keeps others from locking only as long as
// the file is open.
func lockShared(f *os.File) error { return flock(f, unix.LOCK_SH) }

func flock(f *os.File, how int) error {
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrInUse
	}
	return err
}
