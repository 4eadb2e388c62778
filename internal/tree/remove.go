package tree

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// ErrMounted says that something is mounted in the tree, so that nothing below the mount is removed.
var ErrMounted = errors.New("something is mounted there")

// ErrLeftover says that a tree that may hold only folders holds data. An operator must move the
// data away.
var ErrLeftover = errors.New("left-over data of a volume, which is never removed")

const (
	// flat is how many levels below the top a removal opens. A folder further down is renamed to
	// the top.
	flat = 16
	// deepest is how far down it goes if a folder cannot be renamed.
	deepest = 64
	// maxRounds is how often a folder that keeps getting new entries is read.
	maxRounds = 8
)

// errGrows says that something adds to a folder as fast as it is emptied.
var errGrows = errors.New("it grows while it is removed")

// Remove removes the entry name of dir and everything below it. It follows no links and crosses no mount points:
// what it cannot remove stays and is in the error, with the reason ([ErrMounted] for a mount). A missing entry is
// success. When ctx ends, Remove stops after 256 more entries at most; the next call continues. Any number of calls
// may remove the same tree. Folders in it may be made writable and moved to its top.
func Remove(ctx context.Context, dir *os.File, name string) error {
	return start(ctx, dir, name, false)
}

// RemoveEmpty removes the entry name of dir as [Remove] does, if it holds nothing but folders. It
// changes nothing else: data stays as it is and is reported as [ErrLeftover].
func RemoveEmpty(ctx context.Context, dir *os.File, name string) error {
	return start(ctx, dir, name, true)
}

// RemovePath is [Remove] for an absolute path. A missing parent is success too.
func RemovePath(ctx context.Context, path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	return Remove(ctx, dir, filepath.Base(path))
}

// RemoveIn is [Remove] for the entry name of root.
func RemoveIn(ctx context.Context, root *os.Root, name string) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	return Remove(ctx, dir, name)
}

func start(ctx context.Context, dir *os.File, name string, emptyOnly bool) error {
	at := int(dir.Fd())
	r := &removal{pace: pace{ctx: ctx}, top: -1, emptyOnly: emptyOnly}
	err := r.pace.next()
	if err == nil {
		if r.device, _, err = identify(at); err == nil {
			err = r.entry(at, name, unix.DT_UNKNOWN, 0)
		}
	}
	if err := r.result(err); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

// removal is one call of Remove or RemoveEmpty.
type removal struct {
	pace
	// device is the device that the removal is confined to.
	device uint64
	// top is the open folder that deep folders are moved to, -1 before it is open. moved says that
	// a folder was moved there since it was read.
	top   int
	moved bool
	// emptyOnly confines it to folders.
	emptyOnly bool
	// buffers are those for the levels' listings.
	buffers [deepest + 1][]byte
}

// entry removes an entry of the folder dir, which is level levels below that of the call.
func (r *removal) entry(dir int, name string, kind byte, level int) error {
	if r.emptyOnly {
		return r.emptyEntry(dir, name, level)
	}
	var refused error
	if kind != unix.DT_DIR {
		err := r.unlink(dir, name, 0, level)
		switch {
		case err == nil, errors.Is(err, unix.ENOENT):
			return nil
		case errors.Is(err, unix.EBUSY):
			return fmt.Errorf("%s: %w", name, ErrMounted)
		case !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM):
			return fmt.Errorf("unlink %s: %w", name, err)
		}
		refused = err
	}
	if level > flat {
		err := r.moveUp(dir, name)
		if err == nil || level > deepest {
			return err
		}
	}
	err := r.folder(dir, name, level)
	switch {
	case !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP):
		return err
	case refused == nil: // it has just replaced a folder
		return r.entry(dir, name, unix.DT_UNKNOWN, level)
	}
	return fmt.Errorf("unlink %s: %w", name, refused) // it is not a folder, and stays for another reason
}

// emptyEntry is entry for a tree that may hold only folders.
func (r *removal) emptyEntry(dir int, name string, level int) error {
	if level > deepest {
		return leftover(dir, name)
	}
	err := r.folder(dir, name, level)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return leftover(dir, name)
	}
	return err
}

// moveUp renames a folder to the top of the tree, where the reading of the top finds it. If an
// empty folder is in the way of the new name, it is replaced and thereby removed.
func (r *removal) moveUp(dir int, name string) error {
	moved := ".removed-" + rand.Text()
	err := unix.Renameat(dir, name, r.top, moved)
	if errors.Is(err, unix.EACCES) && r.unlock(dir, name, flat) == nil {
		err = unix.Renameat(dir, name, r.top, moved)
	}
	switch {
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%s: %w", name, ErrMounted)
	case err != nil:
		return ignoreMissing(fmt.Errorf("rename the deep folder %s: %w", name, err))
	}
	r.moved = true
	return nil
}

// folder opens the folder name in dir, empties it and removes it. A missing folder is success.
func (r *removal) folder(dir int, name string, level int) error {
	fd, err := openFolder(dir, name)
	if errors.Is(err, unix.EACCES) && !r.emptyOnly && r.unlock(dir, name, level) == nil {
		fd, err = openFolder(dir, name)
	}
	if err != nil {
		return ignoreMissing(fmt.Errorf("open %s: %w", name, err))
	}
	defer unix.Close(fd)
	device, mounted, err := identify(fd)
	if err != nil {
		return fmt.Errorf("stat %s: %w", name, err)
	}
	if mounted || device != r.device {
		return fmt.Errorf("%s: %w", name, ErrMounted)
	}
	if level == 0 {
		r.top = fd
	}
	return r.emptyAndRemove(dir, name, fd, level)
}

// emptyAndRemove removes the folder name of dir, which is open as fd. It reads the folder until it
// is empty, because one reading may miss entries that are added meanwhile.
func (r *removal) emptyAndRemove(dir int, name string, fd, level int) error {
	for round := 1; ; round++ {
		err := r.children(fd, level+1)
		if r.moved && level == 0 && r.cut == nil {
			// The next reading meets everything that stays once more.
			r.moved, r.problems, r.more, round = false, nil, 0, 0
		} else if err != nil {
			return err
		} else if err = r.unlink(dir, name, unix.AT_REMOVEDIR, level); !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
			if err != nil {
				return ignoreMissing(fmt.Errorf("remove %s: %w", name, err))
			}
			return nil
		} else if r.emptyOnly || round == maxRounds {
			return fmt.Errorf("remove %s: %w, or hides entries: %w", name, errGrows, err)
		}
		if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
			return fmt.Errorf("read %s again: %w", name, err)
		}
	}
}

// children removes what is in the folder fd and records what fails, until the context ends.
func (r *removal) children(fd, level int) error {
	if r.buffers[level-1] == nil {
		r.buffers[level-1] = make([]byte, portion)
	}
	entries := listing{fd: fd, buffer: r.buffers[level-1]}
	var result error
	for {
		name, kind, err := entries.next()
		if err != nil {
			return err
		}
		if name == "" {
			return result
		}
		if cut := r.next(); cut != nil {
			return cut
		}
		if err := r.entry(fd, name, kind, level); err != nil {
			r.note(err)
			result = errStays
		}
	}
}

// unlink removes one entry. An agent that is not root may first have to give itself permission to
// change a folder of the tree.
func (r *removal) unlink(dir int, name string, flags, level int) error {
	err := unix.Unlinkat(dir, name, flags)
	if errors.Is(err, unix.EACCES) && level > 0 && !r.emptyOnly && unix.Fchmod(dir, 0o700) == nil {
		err = unix.Unlinkat(dir, name, flags)
	}
	return err
}

// unlock gives the owner all permissions on the folder dir, if that is part of the tree, and on the
// folder name in it.
func (r *removal) unlock(dir int, name string, level int) error {
	if level > 0 {
		if err := unix.Fchmod(dir, 0o700); err != nil {
			return err
		}
	}
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o700)
}

// Leftover describes the entry name of dir as data that should not be there (spec/cleanup.md OD9):
// an [ErrLeftover] with its path and when it last changed. An entry that is gone is not an error.
func Leftover(dir *os.File, name string) error { return leftover(int(dir.Fd()), name) }

func leftover(dir int, name string) error {
	var s unix.Stat_t
	if err := unix.Fstatat(dir, name, &s, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return ignoreMissing(fmt.Errorf("stat %s: %w", name, err))
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", dir))
	if err != nil {
		path = "..." // it is longer than a path can be
	}
	return fmt.Errorf("%s, last changed %s: %w", filepath.Join(path, name),
		time.Unix(s.Mtim.Unix()).UTC().Format(time.RFC3339), ErrLeftover)
}

// identify returns the device of an open folder and, if the kernel says so, whether a mount begins
// there.
func identify(fd int) (device uint64, mounted bool, err error) {
	var x unix.Statx_t
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &x)
	if err == nil {
		return unix.Mkdev(x.Dev_major, x.Dev_minor), x.Attributes_mask&x.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
	}
	if !errors.Is(err, unix.ENOSYS) {
		return 0, false, err
	}
	var s unix.Stat_t
	err = unix.Fstat(fd, &s)
	return s.Dev, false, err
}
