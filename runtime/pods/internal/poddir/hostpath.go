package poddir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// HostPath checks a hostPath volume against its type and makes what the type asks for.
// The user chooses the path; it is not confined.
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
