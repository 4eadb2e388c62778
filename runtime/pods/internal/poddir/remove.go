package poddir

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
)

// ErrMounted: something is mounted below the folder to remove, so nothing more
// of it is removed.
var ErrMounted = errors.New("something is mounted there")

// ErrLeftover: a volume that is not the engine's holds data though nothing is mounted.
// An operator must move the data away.
var ErrLeftover = errors.New("left-over data of a volume, which is never removed")

// Remove removes a pod's folder: the engine's own volumes, then everything else.
// Other volumes must have been unmounted and emptied by their makers: only their empty
// folders are removed (spec/cleanup.md OD2 to OD7). A missing folder is success.
// It ends with ctx at the latest after the present slice (IN12); the next call goes on.
func (s Store) Remove(ctx context.Context, uid types.UID) error {
	if err := s.TearDown(ctx, uid); err != nil {
		return err
	}
	return removeChild(ctx, s.Path, string(uid), removePod)
}

// RemoveTree removes the folder name below parent under the same rules.
func RemoveTree(ctx context.Context, parent, name string) error {
	if err := CheckName("directory name", name); err != nil {
		return err
	}
	return removeChild(ctx, parent, name, func(t tree) error { return t.remove(name) })
}

// removeChild opens parent and hands the tree of name to remove, unless
// something is mounted in it.
func removeChild(ctx context.Context, parent, name string, remove func(tree) error) error {
	dir, err := os.OpenFile(parent, os.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	if err := noMounts(filepath.Join(parent, name)); err != nil {
		return err
	}
	var stat unix.Stat_t
	switch err := unix.Fstatat(int(dir.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW); {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return fmt.Errorf("remove %s: %w", name, err)
	}
	p := &pace{ctx: ctx}
	if err := p.result(remove(tree{dir: dir, device: stat.Dev, name: name, pace: p})); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

func removePod(t tree) error {
	return t.removeDir(t.name, func(pod tree) error {
		err := pod.removeDir("volumes", func(volumes tree) error { return volumes.children(tree.removeEmpty) })
		if err != nil {
			return err
		}
		return pod.children(func(t tree, name string) error {
			if name == "volumes" { // it was made again meanwhile (OD6)
				return fmt.Errorf("%s: volumes are made while the pod is removed", name)
			}
			return t.remove(name)
		})
	})
}

// tree is an open folder and the one device removal is confined to.
type tree struct {
	dir    *os.File
	device uint64
	// name of the entry this removal began with.
	name string
	pace *pace
}

// slice is how many entries are removed before the context is asked whether to go on.
const slice = 256

// maxProblems bounds the errors that are kept of one removal: a tree that stays may have
// millions of entries.
const maxProblems = 10

// errStays: something in a folder could not be removed, which is among the problems.
var errStays = errors.New("not all of it can be removed")

// pace cuts a removal into slices (IN12), and keeps what fails.
type pace struct {
	ctx      context.Context
	entries  int
	cut      error // why it ended
	problems []error
	more     int // how many problems are not kept
}

// next counts an entry, and returns why the removal ends before it.
func (p *pace) next() error {
	if p.entries%slice == 0 && p.cut == nil {
		p.cut = p.ctx.Err()
	}
	p.entries++
	return p.cut
}

// note keeps a problem, unless there are many and one of its kind is kept.
func (p *pace) note(err error) {
	if errors.Is(err, errStays) || p.cut != nil && errors.Is(err, p.cut) {
		return // noted before
	}
	kept := errors.Join(p.problems...)
	for _, kind := range []error{ErrMounted, ErrLeftover} {
		if errors.Is(err, kind) && !errors.Is(kept, kind) {
			p.problems = append(p.problems, err)
			return
		}
	}
	if len(p.problems) >= maxProblems {
		p.more++
		return
	}
	p.problems = append(p.problems, err)
}

// result is the result of a removal that returned err.
func (p *pace) result(err error) error {
	if err == nil {
		return nil
	}
	p.note(err)
	all := append(p.problems, p.cut)
	if p.more > 0 {
		all = append(all, fmt.Errorf("and %d more entries", p.more))
	}
	return errors.Join(all...)
}

// removeDir opens the folder name, lets do empty it and removes it. A missing folder is
// success.
func (t tree) removeDir(name string, do func(tree) error) error {
	if err := t.sameMount(name); err != nil {
		return ignoreMissing(err)
	}
	fd, err := unix.Openat(int(t.dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return ignoreMissing(fmt.Errorf("open %s: %w", name, err))
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return fmt.Errorf("stat %s: %w", name, err)
	}
	if stat.Dev != t.device {
		return fmt.Errorf("%s: %w", name, ErrMounted)
	}
	if err := do(tree{dir: dir, device: t.device, name: t.name, pace: t.pace}); err != nil {
		return err
	}
	return unlinkDir(t.dir, name)
}

// children runs do for every entry and notes the errors, until the context ends.
func (t tree) children(do func(tree, string) error) error {
	var result error
	for {
		// In portions: a container may have left millions of files.
		names, err := t.dir.Readdirnames(1024)
		for _, name := range names {
			if cut := t.pace.next(); cut != nil {
				return cut
			}
			if err := do(t, name); err != nil {
				t.pace.note(err)
				result = errStays
			}
		}
		if errors.Is(err, io.EOF) {
			return result
		}
		if err != nil {
			return err
		}
	}
}

// remove removes an entry with all below it. A link is removed, never followed.
func (t tree) remove(name string) error {
	err := unix.Unlinkat(int(t.dir.Fd()), name, 0)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%s: %w", name, ErrMounted)
	case !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM):
		return fmt.Errorf("unlink %s: %w", name, err)
	}
	below := t.removeDir(name, func(sub tree) error { return sub.children(tree.remove) })
	if errors.Is(below, unix.ENOTDIR) { // it is no folder, and stays for another reason
		return fmt.Errorf("unlink %s: %w", name, err)
	}
	return below
}

// removeEmpty removes a folder that holds nothing but folders.
func (t tree) removeEmpty(name string) error {
	err := t.removeDir(name, func(sub tree) error { return sub.children(tree.removeEmpty) })
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return t.leftover(name)
	}
	return err
}

// leftover describes data in a volume that was not torn down. It is never removed
// (spec/cleanup.md OD9).
func (t tree) leftover(name string) error {
	var s unix.Stat_t
	if err := unix.Fstatat(int(t.dir.Fd()), name, &s, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("stat %s: %w", name, err)
	}
	path, err := os.Readlink(handle(t.dir))
	if err != nil {
		return fmt.Errorf("left-over data %s: %w", name, err)
	}
	return fmt.Errorf("%s, last changed %s: %w", filepath.Join(path, name),
		time.Unix(s.Mtim.Unix()).UTC().Format(time.RFC3339), ErrLeftover)
}

// sameMount reports an entry that is a mount point, where the kernel tells.
func (t tree) sameMount(name string) error {
	var s unix.Statx_t
	err := unix.Statx(int(t.dir.Fd()), name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE, &s)
	if errors.Is(err, unix.ENOSYS) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stat %s: %w", name, err)
	}
	if s.Attributes_mask&s.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return fmt.Errorf("%s: %w", name, ErrMounted)
	}
	return nil
}

func unlinkDir(dir *os.File, name string) error {
	err := unix.Unlinkat(int(dir.Fd()), name, unix.AT_REMOVEDIR)
	if err != nil {
		return ignoreMissing(fmt.Errorf("remove %s: %w", name, err))
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// mountTable lists what this process sees mounted.
const mountTable = "/proc/self/mountinfo"

// noMounts fails if the mount table has an entry at or below path, or cannot be
// read: then it may.
func noMounts(path string) error {
	points, err := mountsBelow(path)
	if err != nil {
		return err
	}
	if len(points) > 0 {
		return fmt.Errorf("%s: %w", points[0], ErrMounted)
	}
	return nil
}

// mountsBelow lists the mount points at or below path.
func mountsBelow(path string) ([]string, error) {
	real, err := filepath.EvalSymlinks(filepath.Dir(path))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	path = filepath.Join(real, filepath.Base(path))
	table, err := os.ReadFile(mountTable)
	if err != nil {
		return nil, fmt.Errorf("mount table: %w", err)
	}
	var out []string
	for _, point := range mountPoints(table) {
		if point == path || strings.HasPrefix(point, path+"/") {
			out = append(out, point)
		}
	}
	return out, nil
}

// mountPoints takes the mount points out of a mountinfo table.
func mountPoints(table []byte) []string {
	var out []string
	lines := bufio.NewScanner(bytes.NewReader(table))
	lines.Buffer(nil, len(table)+1)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 4 {
			out = append(out, unescape(fields[4]))
		}
	}
	return out
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
