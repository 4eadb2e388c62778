package imagegc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ImageFs says where a runtime keeps its images; a cri.ImageService with this ability is one. It is
// called like [Store].
type ImageFs interface {
	ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error)
}

// RuntimeStatus says how a runtime is configured; a cri.RuntimeService is one. It is called like [Store].
type RuntimeStatus interface {
	Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error)
}

// ErrNoImageFs says that the runtime names no file system for its images.
var ErrNoImageFs = errors.New("the runtime names no file system for its images")

// RuntimeDir asks a runtime for a path on the file system that holds its images, as the engine does.
// The path is one on the runtime's machine. The error wraps [ErrNoImageFs] if the runtime names none.
func RuntimeDir(ctx context.Context, client ImageFs) (string, error) {
	response, err := client.ImageFsInfo(ctx)
	if err != nil {
		return "", fmt.Errorf("ask the runtime where its images are: %w", err)
	}
	for _, fs := range response.GetImageFilesystems() {
		if dir := fs.GetFsId().GetMountpoint(); dir != "" {
			return dir, nil
		}
	}
	return "", ErrNoImageFs
}

// RuntimeDisk is Options.Disk as the engine sets it: the file system that the runtime names, asked for each time.
func RuntimeDisk(client ImageFs) func(ctx context.Context) (Disk, error) {
	return func(ctx context.Context) (Disk, error) {
		dir, err := RuntimeDir(ctx, client)
		if err != nil {
			return Disk{}, err
		}
		return DiskAt(dir)
	}
}

// DiskAt reads the usage of the file system that contains a path.
func DiskAt(dir string) (Disk, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return Disk{}, fmt.Errorf("usage of %s: %w", dir, err)
	}
	size := uint64(stat.Frsize)
	return Disk{Capacity: stat.Blocks * size, Available: stat.Bavail * size}, nil
}

// SandboxImages is Options.Keep as the engine sets it (ND5): a runtime that does not pin its sandbox image,
// such as containerd 1.6, reports the image's name in its verbose status. names are kept as well.
func SandboxImages(client RuntimeStatus, names ...string) func(ctx context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		response, err := client.Status(ctx, true)
		if err != nil {
			return nil, fmt.Errorf("ask the runtime for the image of its sandboxes: %w", err)
		}
		return append(sandboxImages(response.GetInfo()), names...), nil
	}
}

// sandboxImages finds the name of the sandbox image in what a runtime says about its configuration.
// Text in another form names no image.
func sandboxImages(info map[string]string) []string {
	var config struct {
		SandboxImage string `json:"sandboxImage"`
	}
	if json.Unmarshal([]byte(info["config"]), &config) != nil || config.SandboxImage == "" {
		return nil
	}
	return []string{config.SandboxImage}
}
