package poddir

import (
	"context"
	"os"

	"k8s.io/apimachinery/pkg/types"
)

// PublishSyncing publishes with a function in place of the sync of a file or folder.
func PublishSyncing(ctx context.Context, volume, fresh string, files map[string]File, sync func(*os.File) error) (bool, error) {
	return publish(ctx, volume, fresh, files, publication{sync: func(_ context.Context, f *os.File) error { return sync(f) }})
}

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

// OpenAndHold resolves a sub-path and holds it.
func (s Store) OpenAndHold(uid types.UID, p SubPath) (string, error) {
	source, err := p.Open()
	if err != nil {
		return "", err
	}
	return s.HoldSubPath(uid, p, source)
}
