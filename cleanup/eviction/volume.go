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
		return podLimit, fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s.", limit.String())
	}
	for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			own := list[i].Resources.Limits[v1.ResourceEphemeralStorage]
			if own.Sign() > 0 && containers[list[i].Name] > uint64(own.Value()) {
				return containerLimit, fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q.", list[i].Name, own.String())
			}
		}
	}
	return "", ""
}

const (
	// maxFiles bounds the walk of [FolderSize].
	maxFiles = 200_000
	// maxLinked bounds how many files with several names one walk remembers: a pod may create as many
	// as it likes, and there may be a walk for each pod.
	maxLinked = 2_000
	// turnFiles is how many files a walk visits before it lets others go on.
	turnFiles = 1024
)

// FolderSize returns the bytes on disk and the files that a folder takes up; a missing folder takes
// up none. The walk ends after 200,000 files: the result is then a lower bound.
func FolderSize(ctx context.Context, dir string) (bytes, files uint64, err error) {
	return walk{most: maxFiles}.size(ctx, dir)
}

// walk says how to measure a folder.
type walk struct {
	// enough ends the walk once more bytes are found, most once there are as many files; 0: never.
	enough, most uint64
	// turns, unless nil, says when the walk may go on. It waits for the next turn after every
	// [turnFiles] files, so that a short walk does not wait for the end of a long one.
	turns *turns
}

// size returns how much of its disk a folder takes up: blocks, and the files and folders in it. It
// does not follow links or enter other file systems, and it counts a file with several names once.
// If the walk ends early, because it has found what it needs or because ctx ends, the result is a lower
// bound. A missing folder is empty; what disappears during the walk does not count.
func (w walk) size(ctx context.Context, dir string) (bytes, files uint64, err error) {
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
	sum := sum{walk: w, device: own.Dev, bytes: uint64(own.Blocks) * 512, files: 1, linked: map[uint64]bool{}}
	if sum.give, err = w.turns.take(ctx); err != nil {
		return 0, 0, err
	}
	defer func() { sum.give() }()
	err = tree.Walker{
		Visit:  func(e tree.Entry) error { return sum.add(ctx, e) },
		Failed: func(string, error) error { return nil }, // what cannot be read does not count
	}.Walk(ctx, root)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return sum.bytes, sum.files, err
}

// sum is what a walk has found so far.
type sum struct {
	walk
	device       uint64
	bytes, files uint64
	linked       map[uint64]bool
	give         func() // ends the walk's turn
}

func (s *sum) add(ctx context.Context, e tree.Entry) error {
	if e.Stat.Dev != s.device {
		return fs.SkipDir
	}
	bytes := uint64(e.Stat.Blocks) * 512
	if !e.IsDir() && e.Stat.Nlink > 1 {
		switch {
		case s.linked[e.Stat.Ino]:
			return nil
		case len(s.linked) < maxLinked:
			s.linked[e.Stat.Ino] = true
		default:
			bytes /= uint64(e.Stat.Nlink) // each name has its share
		}
	}
	s.bytes += bytes
	s.files++
	if s.enough > 0 && s.bytes > s.enough || s.most > 0 && s.files >= s.most {
		return fs.SkipAll
	}
	if s.files%turnFiles != 0 {
		return nil
	}
	s.give()
	give, err := s.turns.take(ctx)
	if err == nil {
		s.give = give
	}
	return err
}
