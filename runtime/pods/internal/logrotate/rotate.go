package logrotate

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

// Rotation is one rotation of one log.
type Rotation struct {
	// Dir is the container's log folder, Log the name of the log in it.
	Dir *os.Root
	Log string
	// MaxFiles is how many files there may be afterwards, at least 2.
	MaxFiles int
	Now      time.Time
	// Reopen makes the runtime open the log by its name again.
	Reopen func(ctx context.Context) error
	// Compressing, if not nil, bounds by its capacity how many files are compressed at once, and is shared by the
	// rotations that it bounds: each compression takes processor time and almost a megabyte of memory.
	Compressing chan struct{}
	// Clock times the wait for that. Required with Compressing.
	Clock timing.Clock
	// Before, if not nil, is called before each change with its name; an error
	// ends the rotation right there, as a crash would.
	Before func(step string) error
}

// errCut marks an error of Before.
var errCut = errors.New("cut short")

// compressWait is how long a rotation waits until it may compress a file. A compression may be stuck, as on a bad part
// of the disk, and the log grows meanwhile; what is left is compressed by the next rotation.
const compressWait = time.Minute

var errBusy = errors.New("another file has been compressed for too long")

// Run rotates. A file that cannot be compressed or removed does not stop the
// rotation: the next one tries again. If the runtime does not reopen the log, the
// log gets its name back.
func (r *Rotation) Run(ctx context.Context) error {
	names, err := poddir.Names(r.Dir)
	if err != nil {
		return fmt.Errorf("list the log folder: %w", err)
	}
	plan := MakePlan(r.Log, names, r.MaxFiles)
	var problems []error
	for _, name := range plan.Remove {
		problems = append(problems, r.remove(name))
	}
	for _, name := range plan.Compress {
		if ctx.Err() != nil || errors.Is(errors.Join(problems...), errCut) {
			break
		}
		if err := r.compress(ctx, name); err != nil {
			problems = append(problems, fmt.Errorf("compress %s: %w", name, err))
		}
		if errors.Is(errors.Join(problems...), errBusy) {
			break
		}
	}
	if err := errors.Join(problems...); ctx.Err() != nil || errors.Is(err, errCut) {
		return errors.Join(err, ctx.Err())
	}
	return errors.Join(append(problems, r.rotate(ctx, Name(r.Log, names, r.Now)))...)
}

func (r *Rotation) before(step string) error {
	if r.Before == nil {
		return nil
	}
	if err := r.Before(step); err != nil {
		return fmt.Errorf("%w: %w", errCut, err)
	}
	return nil
}

func (r *Rotation) remove(name string) error {
	if err := r.before("remove " + name); err != nil {
		return err
	}
	if err := r.Dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

// compress replaces a rotated file by its compressed form. The new file is complete and
// on disk before it gets its name; the old one is removed last.
func (r *Rotation) compress(ctx context.Context, name string) error {
	if r.Compressing != nil {
		timer := r.Clock.NewTimer(compressWait)
		defer timer.Stop()
		select {
		case r.Compressing <- struct{}{}:
			defer func() { <-r.Compressing }()
		case <-timer.C():
			return errBusy
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	from, err := poddir.OpenRegular(r.Dir, name)
	if err != nil {
		return err
	}
	defer from.Close()
	temporary := name + unfinished
	if err := r.before("compress " + name); err != nil {
		return err
	}
	if err := r.zip(ctx, from, temporary); err != nil {
		if left := r.Dir.Remove(temporary); !errors.Is(left, fs.ErrNotExist) {
			err = errors.Join(err, left)
		}
		return err
	}
	if err := r.before("rename " + temporary); err != nil {
		return err
	}
	if err := r.rename(temporary, name+compressed); err != nil {
		return err
	}
	return r.remove(name)
}

// zip writes the compressed form of from to a new file.
func (r *Rotation) zip(ctx context.Context, from *os.File, name string) (err error) {
	info, err := from.Stat()
	if err != nil {
		return err
	}
	to, err := r.Dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	w := gzip.NewWriter(to)
	if _, err := io.Copy(w, interruptible{ctx, from}); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return to.Sync()
}

// interruptible ends a copy with its context.
type interruptible struct {
	ctx  context.Context
	from io.Reader
}

func (i interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.from.Read(p)
}

// rotate renames the log and makes the runtime open a new one.
func (r *Rotation) rotate(ctx context.Context, name string) error {
	if err := r.before("rename " + r.Log); err != nil {
		return err
	}
	if err := r.rename(r.Log, name); err != nil {
		return fmt.Errorf("rename the log: %w", err)
	}
	if err := r.before("reopen"); err != nil {
		return err
	}
	err := r.Reopen(ctx)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("reopen the log: %w", err)
	// If the runtime has opened a new file all the same, that file has lines now and
	// keeps the name.
	if back := r.rename(name, r.Log); back != nil && !errors.Is(back, fs.ErrExist) {
		return errors.Join(err, fmt.Errorf("give the log its name back: %w", back))
	}
	return err
}

// rename renames a file in the folder and never replaces another.
func (r *Rotation) rename(from, to string) error {
	dir, err := r.Dir.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	fd := int(dir.Fd())
	err = unix.Renameat2(fd, from, fd, to, unix.RENAME_NOREPLACE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	// The file system does not support the flag. Only the runtime makes files here,
	// and only the log itself.
	if _, err := r.Dir.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, fs.ErrExist)
	}
	return r.Dir.Rename(from, to)
}
