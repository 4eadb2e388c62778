package poddir

import (
	"errors"
	"fmt"
	"io/fs"
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

const subPathsDir = "volume-subpaths"

// errSubPath hides host paths, which users must not see (spec/runtime.md 12.1).
var errSubPath = errors.New("it leads outside the volume or cannot be opened")

// CheckSubPath reports why sub cannot be a sub-path, nil if it can.
func CheckSubPath(sub string) error {
	if filepath.IsAbs(sub) || slices.Contains(strings.Split(sub, "/"), "..") || strings.ContainsRune(sub, 0) {
		return fmt.Errorf("subPath %q must be relative and without '..'", sub)
	}
	if len(sub) >= unix.PathMax {
		return fmt.Errorf("subPath has %d bytes, more than a path can have", len(sub))
	}
	return nil
}

// SubPath is one use of a part of a volume.
type SubPath struct {
	// Volume is the volume's name, Host where it is on the node.
	Volume, Host string
	// Container and Index name the mount that uses it.
	Container string
	Index     int
	// Path below the volume; what is missing is made, unless Kept is true.
	Path string
	Kept bool
	// Shared lets what is mounted in the container appear on the node.
	Shared bool
}

// Open resolves the sub-path inside its volume. The handle only names what it opens.
func (p SubPath) Open() (*os.File, error) { return openSubPath(p.Host, p.Path, p.Kept) }

// HoldSubPath holds a sub-path, which was opened as source, with a bind mount of its
// own, so that the runtime mounts what was resolved even if the path changes. It
// returns the place of that mount, which stays until [Store.ReleaseSubPaths] or
// [Store.TearDown]. It closes source.
func (s Store) HoldSubPath(uid types.UID, p SubPath, source *os.File) (string, error) {
	defer source.Close()
	if err := errors.Join(podinfo.CheckName("volume name", p.Volume), podinfo.CheckName("container name", p.Container)); err != nil {
		return "", err
	}
	root, err := s.open(uid)
	if err != nil {
		return "", err
	}
	defer root.Close()
	name := filepath.Join(subPathsDir, p.Volume, p.Container, strconv.Itoa(p.Index))
	if err := hold(root, name, source, p.Shared); err != nil {
		return "", fmt.Errorf("subPath %q: %w", p.Path, err)
	}
	return filepath.Join(s.Path, string(uid), name), nil
}

// hold binds source to name below root, where an earlier start may have left its
// own mount.
func hold(root *os.Root, name string, source *os.File, shared bool) error {
	if err := root.MkdirAll(filepath.Dir(name), dirMode); err != nil {
		return bare(err)
	}
	dir, err := root.OpenFile(filepath.Dir(name), os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return bare(err)
	}
	defer dir.Close()
	base := filepath.Base(name)
	if err := dropSubPath(dir, base); err != nil {
		return err
	}
	info, err := source.Stat()
	if err != nil {
		return bare(err)
	}
	if info.IsDir() {
		err = root.Mkdir(name, 0o700)
	} else {
		err = create(root, name, nil, 0o600)
	}
	if err != nil {
		return bare(err)
	}
	target := filepath.Join(handle(dir), base)
	if err := mount(handle(source), target, "", unix.MS_BIND, ""); err != nil {
		return errors.Join(err, dropSubPath(dir, base))
	}
	if shared {
		return nil
	}
	// A slave mount receives mounts of the node, as containers may ask for, and never
	// unmounts one there.
	if err := mount("", target, "", unix.MS_SLAVE, ""); err != nil {
		return errors.Join(err, dropSubPath(dir, base))
	}
	return nil
}

// ReleaseSubPaths releases the sub-paths of one container once its start has succeeded
// or failed, or of all containers of the pod if container is empty.
func (s Store) ReleaseSubPaths(uid types.UID, container string) error {
	err := podinfo.CheckName("pod UID", string(uid))
	if container != "" {
		err = errors.Join(err, podinfo.CheckName("container name", container))
	}
	if err != nil {
		return err
	}
	pod, err := openDir(nil, filepath.Join(s.Path, string(uid)))
	if err != nil {
		return ignoreMissing(err)
	}
	defer pod.Close()
	return dropSubPaths(pod, container)
}

// dropSubPaths drops the sub-paths of one container, or of all.
func dropSubPaths(pod *os.File, container string) error {
	return eachEntry(pod, subPathsDir, func(all *os.File, volume string) error {
		return eachEntry(all, volume, func(dir *os.File, name string) error {
			if container != "" && name != container {
				return nil
			}
			return eachEntry(dir, name, dropSubPath)
		})
	})
}

// dropSubPath unmounts one sub-path and removes the file or empty folder it was
// mounted on (spec/cleanup.md OD3).
func dropSubPath(dir *os.File, name string) error {
	if err := unmount(dir, name, nil); err != nil {
		return err
	}
	err := unix.Unlinkat(int(dir.Fd()), name, 0)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
		if err = unlinkDir(dir, name); errors.Is(err, unix.ENOTEMPTY) {
			return tree.Leftover(dir, name)
		}
		return err
	}
	if err != nil {
		return ignoreMissing(fmt.Errorf("remove %s: %w", name, err))
	}
	return nil
}

// openSubPath opens sub below a volume. If nothing is there, it makes folders, unless kept is
// true. Links inside the volume are followed as long as they stay in it, absolute ones if they
// begin with the volume's path. The handle only names what it opens: devices and pipes are not
// touched.
func openSubPath(volume, sub string, kept bool) (*os.File, error) {
	if err := CheckSubPath(sub); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(volume + "/.") // a hostPath may be a pipe, see openRoot
	if err != nil {
		return nil, fmt.Errorf("subPath %q: the volume is not a directory", sub)
	}
	defer root.Close()
	if _, err := root.Stat(sub); errors.Is(err, fs.ErrNotExist) {
		if kept {
			return nil, fmt.Errorf("subPath %q: there is nothing, and a path of the node that is mounted for reading gets nothing new", sub)
		}
		if err := makeSubPath(root, sub); err != nil {
			return nil, fmt.Errorf("subPath %q: %w", sub, errSubPath)
		}
	}
	dir, err := root.Open(".")
	if err != nil {
		return nil, fmt.Errorf("subPath %q: %w", sub, errSubPath)
	}
	defer dir.Close()
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(int(dir.Fd()), filepath.Clean(sub), &how)
	if errors.Is(err, unix.EXDEV) { // also for an absolute link that leads to a part of the volume
		if plain, ok := withoutLinks(root, volumePaths(volume, dir), sub); ok {
			how.Resolve |= unix.RESOLVE_NO_SYMLINKS // what was a folder a moment ago may be a link now
			fd, err = unix.Openat2(int(dir.Fd()), plain, &how)
		}
	}
	if errors.Is(err, unix.ENOSYS) {
		return nil, fmt.Errorf("subPath %q: this kernel cannot open it safely: Linux 5.6 is needed", sub)
	}
	if err != nil {
		return nil, fmt.Errorf("subPath %q: %w", sub, errSubPath)
	}
	return os.NewFile(uintptr(fd), sub), nil
}

// makeSubPath makes folders with the mode of the volume's own.
func makeSubPath(volume *os.Root, sub string) error {
	info, err := volume.Stat(".")
	if err != nil {
		return err
	}
	at, err := volume.OpenRoot(".")
	if err != nil {
		return err
	}
	defer func() { _ = at.Close() }()
	path := ""
	for part := range strings.SplitSeq(filepath.Clean(sub), "/") {
		path = filepath.Join(path, part)
		err := at.Mkdir(path, info.Mode().Perm())
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		// The umask has reduced the mode.
		if err := at.Chmod(path, info.Mode()&(fs.ModePerm|fs.ModeSetgid)); err != nil {
			return err
		}
		// Nothing is below it: continue from here, because paths may be long.
		next, err := openRoot(at, path)
		if err != nil {
			return err
		}
		_ = at.Close()
		at, path = next, ""
	}
	return nil
}

// Limits for withoutLinks: the links that the kernel follows in one path, and names, because a container may make long ways.
const (
	maxLinks = 40
	maxNames = 1000
)

// volumePaths are the paths of the node under which absolute links may name an open volume.
func volumePaths(volume string, dir *os.File) []string {
	real, err := os.Readlink(handle(dir))
	if err != nil {
		return []string{volume}
	}
	return []string{volume, real}
}

// withoutLinks returns the path of sub below a volume without the links on the way, as they are now. Of an absolute link only
// the text is looked at, never a path of the node: a container may have made it.
func withoutLinks(root *os.Root, volumes []string, sub string) (string, bool) {
	at, rest := ".", strings.Split(sub, "/")
	for links, names := 0, 0; len(rest) > 0; names++ {
		next := filepath.Join(at, rest[0]) // nothing in at is a link, so ".." is what it says
		rest = rest[1:]
		if !filepath.IsLocal(next) || names > maxNames {
			return "", false
		}
		if !isLink(root, next) {
			at = next // if it is not there, opening it fails
			continue
		}
		target, err := root.Readlink(next)
		if links++; err != nil || links > maxLinks {
			return "", false
		}
		if filepath.IsAbs(target) {
			if target, at = below(volumes, target), "."; target == "" {
				return "", false
			}
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return at, true
}

// below returns the part of an absolute path after the first of these folders that it is in, "." for the folder itself and
// nothing if it is in none.
func below(folders []string, target string) string {
	for _, folder := range folders {
		if rest, ok := strings.CutPrefix(target+"/", strings.TrimSuffix(folder, "/")+"/"); ok {
			return "./" + rest
		}
	}
	return ""
}
