package launch

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Mount binds a path of the host into the container's view.
type Mount struct {
	// ContainerPath is where it is bound, absolute and clean.
	ContainerPath string `json:"containerPath"`
	// HostPath is what is bound, absolute and clean.
	HostPath string `json:"hostPath"`
	// Readonly makes the top mount read-only; what is mounted below keeps its mode.
	Readonly bool `json:"readonly,omitempty"`
	// FromHost lets later mounts of the host below HostPath appear.
	FromHost bool `json:"fromHost,omitempty"`
}

// Same reports whether the mount changes nothing on the host's root file system.
func (m Mount) Same() bool { return m.ContainerPath == m.HostPath && !m.Readonly }

// systemFolders of the host are shown in a root file system that has them.
var systemFolders = [...]string{"/proc", "/sys", "/dev"}

// mount builds the container's view in the calling thread's new mount namespace.
func (s *Spec) mount() error {
	// Mounts made here stay here; the host's later mounts still arrive.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("private mount namespace: %w", err)
	}
	root, err := OpenRoot(s.Root)
	if err != nil {
		return err
	}
	defer root.Close()
	if s.Root != "" {
		for _, folder := range systemFolders {
			mode, err := root.mode(folder)
			if err != nil || mode&unix.S_IFMT != unix.S_IFDIR {
				continue
			}
			if err := root.bind(Mount{ContainerPath: folder, HostPath: folder, FromHost: true}); err != nil {
				return err
			}
		}
	}
	for _, m := range s.Mounts {
		if s.Root == "" && m.Same() {
			if _, err := os.Stat(m.HostPath); err != nil {
				return fmt.Errorf("mount %s: %w", m.ContainerPath, err)
			}
			continue
		}
		if err := s.makeTarget(root, m); err != nil {
			return err
		}
		if err := root.bind(m); err != nil {
			return err
		}
	}
	return nil
}

// makeTarget creates the mount point in a root file system, if it is missing.
func (s *Spec) makeTarget(root *Root, m Mount) error {
	info, err := os.Stat(m.HostPath)
	if err != nil {
		return fmt.Errorf("mount %s: %w", m.ContainerPath, err)
	}
	_, err = root.mode(m.ContainerPath)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, unix.ENOENT):
		return fmt.Errorf("mount point: %w", err)
	case s.Root == "":
		return fmt.Errorf("mount point %s does not exist on the host and image \"host\" creates none: "+
			"create it there, mount at %s, or use the folder of a root file system as image", m.ContainerPath, m.HostPath)
	}
	if info.IsDir() {
		err = root.makeFolders(m.ContainerPath)
	} else if err = root.makeFolders(path.Dir(m.ContainerPath)); err == nil {
		err = root.makeFile(m.ContainerPath)
	}
	if err != nil {
		return fmt.Errorf("create mount point: %w", err)
	}
	return nil
}

// makeFolders is os.MkdirAll within the root.
func (r *Root) makeFolders(name string) error {
	at := "/"
	for part := range strings.SplitSeq(strings.Trim(path.Clean(name), "/"), "/") {
		if part == "" {
			continue
		}
		parent, err := r.open(at, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		err = unix.Mkdirat(parent, part, 0o755)
		unix.Close(parent)
		at = path.Join(at, part)
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return &os.PathError{Op: "mkdir", Path: at, Err: err}
		}
	}
	return nil
}

// makeFile creates an empty file within the root, in an existing folder.
func (r *Root) makeFile(name string) error {
	parent, err := r.open(path.Dir(name), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	fd, err := unix.Openat(parent, path.Base(name), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "create", Path: name, Err: err}
	}
	return unix.Close(fd)
}

// bind makes one bind mount. Mount points are named by descriptor, so they cannot be
// replaced between the check and the mount.
func (r *Root) bind(m Mount) error {
	err := r.at(m.ContainerPath, func(target string) error {
		return unix.Mount(m.HostPath, target, "", unix.MS_BIND|unix.MS_REC, "")
	})
	if err != nil {
		return fmt.Errorf("mount %s at %s: %w", m.HostPath, m.ContainerPath, err)
	}
	// Opened again, the path leads to the new mount.
	err = r.at(m.ContainerPath, func(target string) error {
		propagation := uintptr(unix.MS_PRIVATE | unix.MS_REC)
		if m.FromHost {
			propagation = unix.MS_SLAVE | unix.MS_REC
		}
		if err := unix.Mount("", target, "", propagation, ""); err != nil {
			return err
		}
		if !m.Readonly {
			return nil
		}
		var st unix.Statfs_t
		if err := unix.Statfs(target, &st); err != nil {
			return err
		}
		// Flags of the source that are not repeated would be lost, or refused.
		keep := uintptr(st.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME | unix.MS_RELATIME)
		return unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|keep, "")
	})
	if err != nil {
		return fmt.Errorf("mount at %s: %w", m.ContainerPath, err)
	}
	return nil
}

// at calls f with a path that means the file that name resolves to now.
func (r *Root) at(name string, f func(target string) error) error {
	fd, err := r.open(name, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f("/proc/thread-self/fd/" + strconv.Itoa(fd))
}
