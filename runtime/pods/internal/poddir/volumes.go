package poddir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// HostPath checks a hostPath volume against its type, making what the type says
// to make. The path is the user's own choice and is not confined.
func HostPath(source *v1.HostPathVolumeSource) (string, error) {
	path := source.Path
	if !filepath.IsAbs(path) || slices.Contains(strings.Split(path, "/"), "..") {
		return "", fmt.Errorf("hostPath %q is not an absolute path without '..'", path)
	}
	kind := v1.HostPathUnset
	if source.Type != nil {
		kind = *source.Type
	}
	switch kind {
	case v1.HostPathUnset:
		return path, nil
	case v1.HostPathDirectoryOrCreate:
		if err := os.MkdirAll(path, 0o755); err != nil {
			return "", fmt.Errorf("hostPath: %w", err)
		}
	case v1.HostPathFileOrCreate:
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err == nil {
			err = f.Close()
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("hostPath: %w", err)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("hostPath: %w", err)
	}
	mode := info.Mode()
	var ok bool
	switch kind {
	case v1.HostPathDirectory, v1.HostPathDirectoryOrCreate:
		ok = mode.IsDir()
	case v1.HostPathFile, v1.HostPathFileOrCreate:
		ok = mode.IsRegular()
	case v1.HostPathSocket:
		ok = mode&fs.ModeSocket != 0
	case v1.HostPathCharDev:
		ok = mode&fs.ModeCharDevice != 0
	case v1.HostPathBlockDev:
		ok = mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0
	default:
		return "", fmt.Errorf("hostPath type %q is unknown", kind)
	}
	if !ok {
		return "", fmt.Errorf("hostPath %q is not a %s", path, kind)
	}
	return path, nil
}

// errSubPath hides host paths, which users must not see (spec/runtime.md 12.1).
var errSubPath = errors.New("it leads outside the volume or cannot be opened")

// SubPath returns the path of sub below a volume, made as a folder if nothing is
// there. Links inside the volume are followed as long as they stay in it; the
// path returned has none left.
func SubPath(volume, sub string) (string, error) {
	if filepath.IsAbs(sub) || slices.Contains(strings.Split(sub, "/"), "..") {
		return "", fmt.Errorf("subPath %q must be relative and without '..'", sub)
	}
	root, err := os.OpenRoot(volume)
	if err != nil {
		return "", fmt.Errorf("subPath %q: the volume is not a directory", sub)
	}
	defer root.Close()
	real, err := handlePath(root, ".")
	if err != nil {
		return "", fmt.Errorf("subPath %q: %w", sub, errSubPath)
	}
	if _, err := root.Stat(sub); errors.Is(err, fs.ErrNotExist) {
		info, err := root.Stat(".")
		if err == nil {
			err = root.MkdirAll(sub, info.Mode().Perm())
		}
		if err != nil {
			return "", fmt.Errorf("subPath %q: %w", sub, errSubPath)
		}
	}
	path, err := handlePath(root, sub)
	if err != nil || (path != real && !strings.HasPrefix(path, real+"/")) {
		return "", fmt.Errorf("subPath %q: %w", sub, errSubPath)
	}
	return path, nil
}

// handlePath opens name and asks the kernel where the handle really is.
func handlePath(root *os.Root, name string) (string, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
}
