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
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/tree"
)

// ErrMounted: something is mounted below the folder to remove, so nothing more
// of it is removed.
var ErrMounted = tree.ErrMounted

// ErrLeftover: a volume that is not the engine's holds data though nothing is mounted.
// An operator must move the data away.
var ErrLeftover = tree.ErrLeftover

// Remove removes a pod's folder: the engine's own volumes, then everything else. Other
// volumes must have been unmounted and emptied by their makers: only their empty folders
// are removed (spec/cleanup.md OD2 to OD7). It succeeds if there is no folder. After ctx
// ends it stops at the latest after the current slice (IN12); the next call continues.
func (s Store) Remove(ctx context.Context, uid types.UID) error {
	if err := s.TearDown(ctx, uid); err != nil {
		return err
	}
	return removeChild(ctx, s.Path, string(uid), removePod)
}

// RemoveTree removes the folder name below parent under the same rules.
func RemoveTree(ctx context.Context, parent, name string) error {
	if err := podinfo.CheckName("directory name", name); err != nil {
		return err
	}
	return removeChild(ctx, parent, name, tree.Remove)
}

// removeChild opens parent and lets remove remove its entry name, unless something is
// mounted in that entry.
func removeChild(ctx context.Context, parent, name string, remove func(ctx context.Context, dir *os.File, name string) error) error {
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
	if err := noMounts(dir, parent, name); err != nil {
		return err
	}
	return remove(ctx, dir, name)
}

func removePod(ctx context.Context, pods *os.File, uid string) error {
	pod, err := openDir(pods, uid)
	if err != nil {
		return ignoreMissing(err)
	}
	defer pod.Close()
	if err := tree.RemoveEmpty(ctx, pod, "volumes"); err != nil {
		return err
	}
	names, err := pod.Readdirnames(-1)
	problems := []error{err}
	for _, name := range names {
		if name == "volumes" { // it was made again meanwhile (OD6)
			problems = append(problems, fmt.Errorf("%s: volumes are made while the pod is removed", name))
			continue
		}
		problems = append(problems, tree.Remove(ctx, pod, name))
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	return unlinkDir(pods, uid)
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

// noMounts fails if something is mounted at or below the entry name of dir, which is the folder parent, or if
// that cannot be found out. A pod leaves a few files, which are checked one by one. A larger tree is looked up
// in the mount table, which takes the kernel milliseconds on a node with many containers.
func noMounts(dir *os.File, parent, name string) error {
	left := fewEntries
	if plain(dir, name, &left) {
		return nil
	}
	path := filepath.Join(parent, name)
	points, err := mountsBelow(path)
	if err != nil {
		return err
	}
	if len(points) > 0 {
		return fmt.Errorf("%s: %w", points[0], ErrMounted)
	}
	return nil
}

// fewEntries is how many files and folders are checked one by one.
const fewEntries = 64

// plain reports whether the entry name of dir is certainly not a mount point and has none below it. It
// subtracts the entries that it looked at from left.
func plain(dir *os.File, name string, left *int) bool {
	if *left--; *left < 0 {
		return false
	}
	var s unix.Statx_t
	err := unix.Statx(int(dir.Fd()), name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &s)
	if errors.Is(err, unix.ENOENT) {
		return true
	}
	if err != nil || s.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 || s.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return false
	}
	if s.Mode&unix.S_IFMT != unix.S_IFDIR {
		return true
	}
	folder, err := openDir(dir, name)
	if err != nil {
		return false
	}
	defer folder.Close()
	names, err := folder.Readdirnames(*left + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return false
	}
	return !slices.ContainsFunc(names, func(n string) bool { return !plain(folder, n, left) })
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
