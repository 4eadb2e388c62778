package podwrighttest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// stateFile is a file or a folder as it is on the disk.
type stateFile struct {
	path string
	mode fs.FileMode
	text []byte
}

// stateFiles returns what a folder has, itself included, each folder before its contents; nothing if
// there is no such folder.
func stateFiles(dir string) (files []stateFile, err error) {
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			var f stateFile
			if f, err = read(path); err == nil {
				files = append(files, f)
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the engine has just removed it
		}
		return err
	})
	return files, err
}

func read(path string) (stateFile, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return stateFile{}, err
	}
	f := stateFile{path: path, mode: info.Mode()}
	if f.mode.IsRegular() {
		f.text, err = os.ReadFile(path)
	}
	return f, err
}

// putBack makes a folder what it was.
func putBack(dir string, files []stateFile) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	for _, f := range files {
		var err error
		if f.mode.IsDir() {
			err = os.Mkdir(f.path, f.mode.Perm())
		} else {
			err = os.WriteFile(f.path, f.text, f.mode.Perm())
		}
		if err != nil {
			return err
		}
	}
	return nil
}
