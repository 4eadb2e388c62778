package eviction

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/tree"
)

// Volume is a folder of a pod that may hold no more than Limit bytes.
type Volume struct {
	Name, Path string
	Limit      uint64
}

// exceeded tells users that a volume holds more than it may. It returns "" if the volume does not.
func exceeded(v Volume, used uint64) string {
	if v.Limit == 0 || used <= v.Limit {
		return ""
	}
	return fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q.", v.Name,
		resource.NewQuantity(int64(min(v.Limit, 1<<62)), resource.BinarySI).String())
}

// Storage is what a pod itself uses of the node's disk.
type Storage struct {
	// Containers has the bytes of the writable layers and logs, by container.
	Containers map[string]uint64
	// Folders are the emptyDirs on the disk and the files that the node makes for the pod.
	Folders []string
}

// overLimit returns the signal and the message for a pod that uses more ephemeral storage than the
// limits of its containers, together or of a single one, allow. Both are empty if it does not.
func overLimit(pod *v1.Pod, containers map[string]uint64, folders uint64) (signal, text string) {
	limit := podinfo.DeclaredLimit(pod, v1.ResourceEphemeralStorage)
	total := folders
	for _, used := range containers {
		total += used
	}
	if limit.Sign() > 0 && total > uint64(limit.Value()) {
		return "ephemeralpodfs.limit", fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s.", limit.String())
	}
	for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			own := list[i].Resources.Limits[v1.ResourceEphemeralStorage]
			if own.Sign() > 0 && containers[list[i].Name] > uint64(own.Value()) {
				return "ephemeralcontainerfs.limit", fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q.", list[i].Name, own.String())
			}
		}
	}
	return "", ""
}

// maxFiles bounds one walk of a folder: a pod may create as many files as it likes.
const maxFiles = 200_000

// FolderSize returns the bytes on disk and the files that a folder takes up; a missing folder takes
// up none. The walk ends after 200,000 files.
func FolderSize(ctx context.Context, dir string) (bytes, files uint64, err error) {
	return size(ctx, dir, 0)
}

// size returns how much of its disk a folder takes up: blocks, and the files and folders in it. It
// does not follow links or enter other file systems, and it counts a file with several names once.
// The walk ends early once it has found more than enough bytes (0: never) or maxFiles files; the
// result is then a lower bound. A missing folder is empty; what disappears during the walk does not
// count.
func size(ctx context.Context, dir string, enough uint64) (bytes, files uint64, err error) {
	root, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	defer root.Close()
	info, err := root.Stat()
	if err != nil {
		return 0, 0, err
	}
	own, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, fmt.Errorf("%s: no file numbers on this system", dir)
	}
	bytes, files = uint64(own.Blocks)*512, 1
	linked := map[uint64]bool{}
	err = tree.Walker{
		Visit: func(e tree.Entry) error {
			if e.Stat.Dev != own.Dev {
				return fs.SkipDir
			}
			if !e.IsDir() && e.Stat.Nlink > 1 {
				if linked[e.Stat.Ino] {
					return nil
				}
				linked[e.Stat.Ino] = true
			}
			bytes += uint64(e.Stat.Blocks) * 512
			files++
			if enough > 0 && bytes > enough || files >= maxFiles {
				return fs.SkipAll
			}
			return nil
		},
		Failed: func(string, error) error { return nil }, // what cannot be read does not count
	}.Walk(ctx, root)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return bytes, files, err
}
