package poddir

import (
	"os"
)

// OpenRoot opens a folder that a pod may have swapped with a pipe.
func OpenRoot(dir *os.Root, path string) (*os.Root, error) { return openRoot(dir, path) }

// OpenSubPath resolves a sub-path without holding it and tells where it is.
func OpenSubPath(volume, sub string) (string, error) {
	f, err := openSubPath(volume, sub, false)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return os.Readlink(handle(f))
}
