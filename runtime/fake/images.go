package fake

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
)

// storedImage is an image in the store. It never changes.
type storedImage struct {
	id string
	Image
}

// normalize gives a name without tag and digest the tag latest.
func normalize(ref string) string {
	if strings.Contains(ref, "@") || strings.Contains(ref[strings.LastIndex(ref, "/")+1:], ":") {
		return ref
	}
	return ref + ":latest"
}

// imageID returns the ID of the image of this name: the same in every fake.
func imageID(ref string) string {
	sum := sha256.Sum256([]byte(ref))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// storeImage puts an image into the store, replacing one of the same name. The lock
// must be held.
func (f *Runtime) storeImage(image Image) *storedImage {
	image.Ref = normalize(image.Ref)
	stored := &storedImage{id: imageID(image.Ref), Image: image}
	if i := slices.IndexFunc(f.images, func(other *storedImage) bool { return other.id == stored.id }); i >= 0 {
		f.images[i] = stored
	} else {
		f.images = append(f.images, stored)
	}
	return stored
}

// findImage returns the image of a name or ID, nil if absent. The lock must be
// held.
func (f *Runtime) findImage(ref string) *storedImage {
	if ref == "" {
		return nil
	}
	name := normalize(ref)
	for _, image := range f.images {
		if image.id == ref || image.Ref == name {
			return image
		}
	}
	return nil
}

// proto builds the CRI form.
func (i *storedImage) proto() *runtimeapi.Image {
	image := &runtimeapi.Image{Id: i.id, Size: i.Size, Username: i.Username, Spec: &runtimeapi.ImageSpec{Image: i.Ref}}
	if strings.Contains(i.Ref, "@") {
		image.RepoDigests = []string{i.Ref}
	} else {
		image.RepoTags = []string{i.Ref}
	}
	if i.UID != nil {
		image.Uid = &runtimeapi.Int64Value{Value: *i.UID}
	}
	return image
}

// ListImages returns the images that match filter, in the order they were added.
func (f *Runtime) ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	filter = clone(filter)
	call := Call{Method: ListImages, Request: &runtimeapi.ListImagesRequest{Filter: filter}}
	return do(ctx, f, call, step[[]*runtimeapi.Image]{
		effect: func() ([]*runtimeapi.Image, error) {
			wanted := filter.GetImage().GetImage()
			var list []*runtimeapi.Image
			for _, image := range f.images {
				if wanted == "" || image == f.findImage(wanted) {
					list = append(list, image.proto())
				}
			}
			return list, nil
		},
		filter: keepByID[*runtimeapi.Image],
	})
}

// ImageStatus returns the image of a name or ID; a nil Image if it is absent.
func (f *Runtime) ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error) {
	image = clone(image)
	call := Call{Method: ImageStatus, Request: &runtimeapi.ImageStatusRequest{Image: image, Verbose: verbose}}
	return do(ctx, f, call, step[*runtimeapi.ImageStatusResponse]{effect: func() (*runtimeapi.ImageStatusResponse, error) {
		found := f.findImage(image.GetImage())
		if found == nil {
			return &runtimeapi.ImageStatusResponse{}, nil
		}
		return &runtimeapi.ImageStatusResponse{Image: found.proto()}, nil
	}})
}

// PullImage asks Options.Registry and puts the image into the store.
func (f *Runtime) PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, podSandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	image, auth, podSandboxConfig = clone(image), clone(auth), clone(podSandboxConfig)
	call := Call{
		Method: PullImage,
		PodUID: podUID(podSandboxConfig), Pod: podSandboxConfig.GetMetadata().GetName(),
		Request: &runtimeapi.PullImageRequest{Image: image, Auth: auth, SandboxConfig: podSandboxConfig},
	}
	var pull Pull
	return do(ctx, f, call, step[string]{
		before: func(ctx context.Context) error {
			if image.GetImage() == "" {
				return fmt.Errorf("image without a name: %w", runtime.ErrInvalid)
			}
			pull = f.options.Registry(normalize(image.GetImage()), auth)
			if pull.Took > 0 {
				if err := f.pause(ctx, pull.Took); err != nil {
					return err
				}
			}
			return pull.Err
		},
		effect: func() (string, error) {
			pull.Image.Ref = image.GetImage()
			return f.storeImage(pull.Image).id, nil
		},
	})
}

// RemoveImage removes an image from the store. Containers that use it keep running.
func (f *Runtime) RemoveImage(ctx context.Context, image *runtimeapi.ImageSpec) error {
	image = clone(image)
	call := Call{Method: RemoveImage, Request: &runtimeapi.RemoveImageRequest{Image: image}}
	_, err := do(ctx, f, call, step[struct{}]{effect: func() (struct{}, error) {
		found := f.findImage(image.GetImage())
		f.images = slices.DeleteFunc(f.images, func(other *storedImage) bool { return other == found })
		return struct{}{}, nil
	}})
	return err
}
