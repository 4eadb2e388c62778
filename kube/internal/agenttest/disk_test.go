package agenttest

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// sameTree makes a folder like another one. What is the same already stays, mounts too; those of
// folders that go end.
func sameTree(to, from string) error {
	if err := removeOthers(to, from); err != nil {
		return err
	}
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		copied := filepath.Join(to, strings.TrimPrefix(path, from))
		switch {
		case entry.IsDir():
			return errors.Join(os.MkdirAll(copied, 0o700), os.Chmod(copied, info.Mode()))
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if old, _ := os.Readlink(copied); err != nil || old == target {
				return err
			}
			_ = os.Remove(copied)
			return os.Symlink(target, copied)
		case !info.Mode().IsRegular():
			return nil
		}
		content, err := os.ReadFile(path)
		if old, absent := os.ReadFile(copied); err != nil || absent == nil && bytes.Equal(old, content) {
			return err
		}
		return errors.Join(os.WriteFile(copied, content, 0o600), os.Chmod(copied, info.Mode()))
	})
}

// removeOthers removes what the other folder has not.
func removeOthers(to, from string) error {
	return filepath.WalkDir(to, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		there, err := os.Lstat(filepath.Join(from, strings.TrimPrefix(path, to)))
		switch {
		case err == nil && there.IsDir() == entry.IsDir():
			return nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		case entry.IsDir():
			if err := errors.Join(unmountBelow(path), os.RemoveAll(path)); err != nil {
				return err
			}
			return fs.SkipDir
		}
		return os.Remove(path)
	})
}
