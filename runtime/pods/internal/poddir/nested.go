package poddir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// MakeMountPoint makes what a mount at a path inside a volume of published files is mounted on, unless something is there: a
// folder, or an empty file. Containers mount such a volume for reading, so their runtime cannot make it. Where the files
// themselves are, nothing is made: what they are in goes with their next change.
func MakeMountPoint(volume, at string, folder func() (bool, error)) error {
	root, err := os.OpenRoot(volume)
	if err != nil {
		return bare(err)
	}
	defer root.Close()
	if _, err := root.Stat(at); !errors.Is(err, fs.ErrNotExist) {
		return bare(err)
	}
	first, _, _ := strings.Cut(at, "/")
	if info, err := root.Lstat(first); strings.HasPrefix(first, "..") || err == nil && !info.IsDir() {
		return fmt.Errorf("%s is replaced when the files change, so nothing can be mounted in it", first)
	}
	switch made, err := folder(); {
	case err != nil:
		return err
	case made:
		return bare(makeSubPath(root, at))
	}
	if parent := path.Dir(at); parent != "." {
		if err := makeSubPath(root, parent); err != nil {
			return bare(err)
		}
	}
	return bare(create(root, at, nil, 0o644))
}
