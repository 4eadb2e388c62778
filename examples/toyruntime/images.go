package toyruntime

import (
	"context"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
)

// Image is the only image there is: the files of the host.
const Image = "localhost/host:latest"

// hostImage is the store of that image. Its content never changes.
type hostImage struct{}

// ListImages implements [cri.ImageService].
func (hostImage) ListImages(_ context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	if !isOr(filter.GetImage().GetImage(), Image) {
		return nil, nil
	}
	return []*runtimeapi.Image{{Id: Image, RepoTags: []string{Image}}}, nil
}

// ImageStatus implements [cri.ImageService].
func (h hostImage) ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, _ bool) (*runtimeapi.ImageStatusResponse, error) {
	response := &runtimeapi.ImageStatusResponse{}
	if found, _ := h.ListImages(ctx, &runtimeapi.ImageFilter{Image: image}); len(found) > 0 {
		response.Image = found[0]
	}
	return response, nil
}

// PullImage implements [cri.ImageService].
func (hostImage) PullImage(_ context.Context, image *runtimeapi.ImageSpec, _ *runtimeapi.AuthConfig, _ *runtimeapi.PodSandboxConfig) (string, error) {
	if err := isHost(image); err != nil {
		return "", err
	}
	return Image, nil
}

// isHost returns an error for any other image.
func isHost(image *runtimeapi.ImageSpec) error {
	if image.GetImage() != Image {
		return fmt.Errorf("image %s: %w; the only one is %s", image.GetImage(), runtime.ErrNotFound, Image)
	}
	return nil
}

// RemoveImage implements [cri.ImageService].
func (hostImage) RemoveImage(_ context.Context, image *runtimeapi.ImageSpec) error {
	if image.GetImage() == Image {
		return fmt.Errorf("image %s is the host itself: %w", Image, runtime.ErrFailedPrecondition)
	}
	return nil
}
