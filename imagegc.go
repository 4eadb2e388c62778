package podwright

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cleanup/imagegc"
)

// ImageGC removes images that nobody uses (spec/cleanup.md 8.2). Images belong to
// nobody: one that was imported by hand and is not used by any container or pod goes
// like all others, unless it is pinned. That is why an engine does it only if it is
// told to.
type ImageGC struct {
	// Policy says when images go. Zero: when the disk is 85 % full the longest
	// unused go until it is 80 % full, but none that was first seen less than two
	// minutes ago.
	Policy imagegc.Policy
	// Period is the time between two looks at the images. 0: 5 min.
	Period time.Duration
	// Dir is any path on the file system the images are on. Empty: the runtime is
	// asked for it (ImageFsInfo); the answer must then be a path of this machine.
	Dir string
	// Keep are names of images that stay in any case. The image of the runtime's
	// sandboxes stays anyway if the runtime pins it or says its name.
	Keep []string
}

// imageFs is an optional ability of [Config.Images]: it says where the images are.
type imageFs interface {
	ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error)
}

// buildImageGC makes the collector of images, if there is to be one.
func (e *parts) buildImageGC(meter metric.Meter) error {
	c := e.config
	if c.ImageGC == nil {
		return nil
	}
	options := imagegc.Options{
		Store: c.Images, Containers: c.Runtime, Policy: c.ImageGC.Policy, Period: c.ImageGC.Period,
		Disk: e.imageDisk, Desired: e.desiredImages, Keep: e.keptImages,
		Left: func(ctx context.Context, _ []string) {
			if err := e.records.prune(ctx); err != nil && ctx.Err() == nil {
				c.Observe.Logger.Error(err, "Records of images that are gone stay")
			}
		},
		NodeName: c.Node.Name, Recorder: c.Observe.Events,
		Clock: c.Clock, Logger: c.Observe.Logger.WithName("images"), Meter: meter,
	}
	if _, ok := c.Images.(imageFs); !ok && c.ImageGC.Dir == "" {
		if c.ImageGC.Policy.MaxAge == 0 {
			return errors.New("ImageGC.Dir is required: the runtime does not say where its images are")
		}
		options.Disk = nil // only age counts
	}
	var err error
	if e.images, err = imagegc.New(options); err != nil {
		return fmt.Errorf("ImageGC: %w", err)
	}
	return nil
}

// runImageGC collects images until ctx ends.
func (e *parts) runImageGC(ctx context.Context) error {
	if e.images == nil {
		<-ctx.Done()
		return nil
	}
	if err := e.images.Run(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

// imageDir returns a path on the file system the images are on.
func (e *parts) imageDir(ctx context.Context) (string, error) {
	if dir := e.config.ImageGC.Dir; dir != "" {
		return dir, nil
	}
	if images, ok := e.config.Images.(imageFs); ok {
		response, err := images.ImageFsInfo(ctx)
		if err != nil {
			return "", err
		}
		for _, fs := range response.GetImageFilesystems() {
			if dir := fs.GetFsId().GetMountpoint(); dir != "" {
				return dir, nil
			}
		}
	}
	return "", errors.New("the runtime names no file system of its images; set ImageGC.Dir")
}

// imageDisk reads the usage of the file system the images are on.
func (e *parts) imageDisk(ctx context.Context) (imagegc.Disk, error) {
	dir, err := e.imageDir(ctx)
	if err != nil {
		return imagegc.Disk{}, err
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return imagegc.Disk{}, fmt.Errorf("usage of %s: %w", dir, err)
	}
	size := uint64(stat.Frsize)
	return imagegc.Disk{Capacity: stat.Blocks * size, Available: stat.Bavail * size}, nil
}

// desiredImages names the images of the desired pods, started or not (IG11).
func (e *parts) desiredImages() []string {
	var names []string
	for _, pod := range e.loop.Store().Pods() {
		names = append(names, imagesOf(pod)...)
	}
	return names
}

// imagesOf names the images of a pod's containers and volumes.
func imagesOf(pod *v1.Pod) []string {
	var names []string
	add := func(name string) {
		if name != "" {
			names = append(names, name)
		}
	}
	for i := range pod.Spec.InitContainers {
		add(pod.Spec.InitContainers[i].Image)
	}
	for i := range pod.Spec.Containers {
		add(pod.Spec.Containers[i].Image)
	}
	for i := range pod.Spec.EphemeralContainers {
		add(pod.Spec.EphemeralContainers[i].Image)
	}
	for i := range pod.Spec.Volumes {
		if image := pod.Spec.Volumes[i].Image; image != nil {
			add(image.Reference)
		}
	}
	return names
}

// keptImages names the images that stay in any case. A runtime that does not pin the
// image its sandboxes are made of tells its name when asked for everything, such as
// containerd 1.6.
func (e *parts) keptImages(ctx context.Context) ([]string, error) {
	response, err := e.config.Runtime.Status(ctx, true)
	if err != nil {
		return nil, err
	}
	return append(sandboxImages(response.GetInfo()), e.config.ImageGC.Keep...), nil
}

// sandboxImages finds the name of the sandboxes' image in what a runtime says of its
// configuration. Whatever is not understood says nothing.
func sandboxImages(info map[string]string) []string {
	var config struct {
		SandboxImage string `json:"sandboxImage"`
	}
	if json.Unmarshal([]byte(info["config"]), &config) != nil || config.SandboxImage == "" {
		return nil
	}
	return []string{config.SandboxImage}
}
