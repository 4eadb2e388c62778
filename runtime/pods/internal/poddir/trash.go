package poddir

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Trees that may be big are renamed into a folder beside that of the pods before they are
// removed (IN12): a removal that is cut off leaves nothing that the next life of its pod
// could meet. No UID leads there, because it is not below the folder of the pods.

// ErrInTrash: a removal has taken a tree away from its pod and then failed. [Store.EmptyTrash]
// continues it.
var ErrInTrash = errors.New("removed later")

// trash is the folder of trees whose removal has begun.
func (s Store) trash() string { return s.Path + ".removed" }

// discard removes the entry name of dir, which is the folder parent.
func (s Store) discard(ctx context.Context, parent string, dir *os.File, name string) error {
	if err := noMounts(dir, parent, name); err != nil {
		return err
	}
	moved, err := s.moveAway(dir, name)
	if err != nil {
		// It is another file system, or full or read-only: remove in place what can be removed.
		return RemoveTree(ctx, parent, name)
	}
	if err := RemoveTree(ctx, s.trash(), moved); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrInTrash, name, err)
	}
	return nil
}

// moveAway gives the entry a name of its own in the trash.
func (s Store) moveAway(dir *os.File, name string) (moved string, err error) {
	if err := os.Mkdir(s.trash(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	trash, err := openDir(nil, s.trash())
	if err != nil {
		return "", err
	}
	defer trash.Close()
	moved = rand.Text()
	err = unix.Renameat2(int(dir.Fd()), name, int(trash.Fd()), moved, unix.RENAME_NOREPLACE)
	return moved, err
}

// EmptyTrash continues the removals that failed or were cut off by the end of their context or of
// the agent. When ctx ends, it stops after the current slice.
func (s Store) EmptyTrash(ctx context.Context) error {
	entries, err := os.ReadDir(s.trash())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	problems := []error{err}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(problems, err)...)
		}
		if err := RemoveTree(ctx, s.trash(), e.Name()); err != nil {
			problems = append(problems, fmt.Errorf("left by a removal that was cut off: %w", err))
		}
	}
	return errors.Join(problems...)
}
