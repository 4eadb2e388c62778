package poddir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
)

// The folders of the volumes the engine makes, as they are named on disk.
const (
	EmptyDir    = "kubernetes.io~empty-dir"
	ConfigMap   = "kubernetes.io~configmap"
	Secret      = "kubernetes.io~secret"
	DownwardAPI = "kubernetes.io~downward-api"
	Projected   = "kubernetes.io~projected"
)

// ownPlugins are the folders whose content the engine removes.
var ownPlugins = []string{EmptyDir, ConfigMap, Secret, DownwardAPI, Projected}

// unfinished is the mode of a volume's folder until it is ready. After a crash the next
// attempt sees it and continues.
const unfinished fs.FileMode = 0

// VolumeDir describes the folder of a volume.
type VolumeDir struct {
	// Plugin is one of the constants above, Name the volume's name.
	Plugin, Name string
	// Mode of the folder, without the set-group-ID bit.
	Mode fs.FileMode
	// Group owns the folder and everything made in it; nil: the agent's.
	Group *int64
	// Memory makes it a file system in memory of at most Size bytes (0: half of
	// the machine's), which is never swapped out if the kernel can do that: Linux 6.4,
	// not in a user namespace. Otherwise Swappable is called, if it is not nil.
	Memory    bool
	Size      int64
	Swappable func()
}

// MakeVolume makes the folder of a volume, or finds it as it was left, and
// returns its path. It fails with [ErrNoMounts] if it would have to mount and may
// not.
func (s Store) MakeVolume(uid types.UID, v VolumeDir) (string, error) {
	if err := podinfo.CheckName("volume name", v.Name); err != nil {
		return "", err
	}
	root, err := s.open(uid)
	if err != nil {
		return "", err
	}
	defer root.Close()
	name := filepath.Join("volumes", v.Plugin, v.Name)
	if err := root.MkdirAll("volumes", dirMode); err != nil {
		return "", err
	}
	pluginMode := fs.FileMode(dirMode)
	if v.Plugin == Secret || v.Plugin == Projected {
		pluginMode = 0o700 // whatever the modes of the files are
	}
	if err := root.Mkdir(filepath.Dir(name), pluginMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if err := root.Mkdir(name, unfinished); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if v.Memory {
		err = mountMemory(root, name, v)
	} else {
		err = finish(root, name, v)
	}
	if err != nil {
		return "", fmt.Errorf("volume directory: %w", err)
	}
	return filepath.Join(s.Path, string(uid), name), nil
}

// VolumePath returns where the folder of a volume is or would be, empty if there
// can be none of this name.
func (s Store) VolumePath(uid types.UID, plugin, name string) string {
	if podinfo.CheckName("pod UID", string(uid)) != nil || podinfo.CheckName("volume name", name) != nil {
		return ""
	}
	return filepath.Join(s.Path, string(uid), "volumes", plugin, name)
}

// Mounted names the places below the pod's folder on which something is mounted.
func (s Store) Mounted(uid types.UID) ([]string, error) {
	if err := podinfo.CheckName("pod UID", string(uid)); err != nil {
		return nil, err
	}
	return mountsBelow(filepath.Join(s.Path, string(uid)))
}

// finish gives a new folder its owner and then its mode. Later changes by containers
// stay.
func finish(root *os.Root, name string, v VolumeDir) error {
	info, err := root.Lstat(name)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", v.Name)
	case info.Mode().Perm() != unfinished:
		return nil
	}
	mode := v.Mode
	if v.Group != nil {
		if err := root.Lchown(name, -1, int(*v.Group)); err != nil {
			return fmt.Errorf("fsGroup %d: %w", *v.Group, bare(err))
		}
		mode |= fs.ModeSetgid
	}
	return root.Chmod(name, mode)
}

// mountMemory mounts a file system in memory, unless it is there already: its
// content outlives the agent.
func mountMemory(root *os.Root, name string, v VolumeDir) error {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrPermission) {
		return ErrNoMounts // mode 0 stops only users who may not mount either
	}
	if err != nil {
		return err
	}
	defer f.Close()
	mounted, err := isMountRoot(f)
	if err != nil || mounted {
		return err
	}
	mode := uint32(v.Mode.Perm())
	if v.Mode&fs.ModeSticky != 0 {
		mode |= unix.S_ISVTX
	}
	data := ""
	if v.Group != nil {
		mode |= unix.S_ISGID
		data = fmt.Sprintf(",gid=%d", *v.Group)
	}
	data = fmt.Sprintf("mode=%o", mode) + data
	if v.Size > 0 {
		data += fmt.Sprintf(",size=%d", v.Size)
	}
	// Its pages count as the agent's as far as it writes them, so the swap limits of containers do not hold them.
	if err := mount("tmpfs", handle(f), "tmpfs", 0, data+",noswap"); !errors.Is(err, unix.EINVAL) {
		return err
	}
	err = mount("tmpfs", handle(f), "tmpfs", 0, data)
	if err == nil && v.Swappable != nil {
		v.Swappable()
	}
	return err
}

// bare takes the path out of an error, which users must not see.
func bare(err error) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// TearDown undoes what was made for a pod's volumes: sub-path mounts, memory, and the
// content of the engine's own volumes. Other volumes stay as they are. Something mounted
// in the way stays and is an error. If there is nothing to do it succeeds.
func (s Store) TearDown(ctx context.Context, uid types.UID) error {
	if err := podinfo.CheckName("pod UID", string(uid)); err != nil {
		return err
	}
	pod, err := openDir(nil, filepath.Join(s.Path, string(uid)))
	if err != nil {
		return ignoreMissing(err)
	}
	defer pod.Close()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := dropSubPaths(pod, ""); err != nil {
		return err // they hold the volumes
	}
	volumes, err := openDir(pod, "volumes")
	if err != nil {
		return ignoreMissing(err)
	}
	defer volumes.Close()
	var problems []error
	for _, plugin := range ownPlugins {
		problems = append(problems, eachEntry(volumes, plugin, func(dir *os.File, name string) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := unmount(dir, name, isTmpfs); err != nil {
				return err
			}
			if unix.Unlinkat(int(dir.Fd()), name, unix.AT_REMOVEDIR) == nil {
				return nil // empty, and an unfinished one needs rights to open
			}
			return s.discard(ctx, filepath.Join(s.Path, string(uid), "volumes", plugin), dir, name)
		}))
	}
	return errors.Join(problems...)
}

// openDir opens a folder, below dir if that is not nil, and follows no link.
func openDir(dir *os.File, name string) (*os.File, error) {
	at := unix.AT_FDCWD
	if dir != nil {
		at = int(dir.Fd())
	}
	fd, err := openFolder(at, name, unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// eachEntry runs do for every entry of the folder name in parent, in order, and
// removes the folder if it is empty then.
func eachEntry(parent *os.File, name string, do func(dir *os.File, name string) error) error {
	dir, err := openDir(parent, name)
	if err != nil {
		return ignoreMissing(err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	problems := []error{err}
	slices.Sort(names)
	for _, n := range names {
		problems = append(problems, do(dir, n))
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	if err := unlinkDir(parent, name); !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	return nil
}
