package poddir

import (
	"os"
)

// OpenSubPath resolves a sub-path without holding it and tells where it is.
func OpenSubPath(volume, sub string) (string, error) {
	f, err := openSubPath(volume, sub, false)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return os.Readlink(handle(f))
}
