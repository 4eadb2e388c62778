package cri

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ImageStatus implements ImageService.
func (c *Client) ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error) {
	response, err := call(ctx, c, "ImageStatus", c.options.CallTimeout, c.images.ImageStatus,
		&runtimeapi.ImageStatusRequest{Image: image, Verbose: verbose})
	if IsNotFound(err) {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	return response, err
}

// RemoveImage implements ImageService.
func (c *Client) RemoveImage(ctx context.Context, image *runtimeapi.ImageSpec) error {
	_, err := call(ctx, c, "RemoveImage", c.options.CallTimeout, c.images.RemoveImage,
		&runtimeapi.RemoveImageRequest{Image: image})
	return missingIsFine(err)
}

// ImageFsInfo returns the usage of the file systems that hold images.
func (c *Client) ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	return call(ctx, c, "ImageFsInfo", c.options.CallTimeout, c.images.ImageFsInfo,
		&runtimeapi.ImageFsInfoRequest{})
}
