package containerdtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// useForeign hands out a runtime that the test did not start.
func useForeign(tb testing.TB, endpoint string) *Instance {
	tb.Helper()
	i := &Instance{Endpoint: endpoint, Image: Image, Root: tb.TempDir(), tb: tb}
	if err := i.prepareForeign(); err != nil {
		tb.Fatalf("containerdtest: the runtime of %s=%s cannot be used: %v", EndpointVariable, endpoint, err)
	}
	i.before = i.mustList(nil, nil)
	return i
}

// prepareForeign makes sure that the runtime answers and has an image.
func (i *Instance) prepareForeign() error {
	if !strings.HasPrefix(i.Endpoint, "unix://") {
		return errors.New("want unix:///path/of/socket")
	}
	ctx, cancel := context.WithTimeout(i.tb.Context(), foreignTimeout)
	defer cancel()
	if err := probe(ctx, i.Endpoint); err != nil {
		return err
	}
	present, err := i.hasImage(Image)
	if err != nil || present {
		return err
	}
	return i.pullForeign()
}

// pullForeign lets the runtime pull the image from a registry that the test serves, and
// removes it when the test is over. Each test has an image of its own: packages use the
// runtime at the same time, and some runtimes remove every name of an image together.
func (i *Instance) pullForeign() error {
	busybox := lookBusybox(i.tb)
	content, err := os.ReadFile(busybox)
	if err != nil {
		return err
	}
	applets, err := listApplets(i.tb.Context(), busybox)
	if err != nil {
		return err
	}
	img := busyboxImage("busybox:test", content, applets)
	img.env = append(img.env, "PODWRIGHT_TEST="+i.Root)
	i.Image = serve(i.tb, RegistryOptions{}, img)
	i.tb.Cleanup(i.removeForeign)
	err = i.images(func(ctx context.Context, c runtimeapi.ImageServiceClient) error {
		_, err := c.PullImage(ctx, &runtimeapi.PullImageRequest{Image: imageSpec(i.Image)})
		return err
	})
	if err != nil {
		return fmt.Errorf("it does not have the image %s, and does not pull %s from the test (it must speak plain HTTP to registries on loopback): %w", Image, i.Image, err)
	}
	present, err := i.hasImage(i.Image)
	if err == nil && !present {
		err = fmt.Errorf("it does not show the image %s after it was pulled", i.Image)
	}
	return err
}

// removeForeign removes the image that was pulled.
func (i *Instance) removeForeign() {
	err := i.images(func(ctx context.Context, c runtimeapi.ImageServiceClient) error {
		_, err := c.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: imageSpec(i.Image)})
		return err
	})
	if err != nil {
		i.tb.Errorf("containerdtest: the image %s stays in the runtime: %v", i.Image, err)
	}
}

// hasImage reports whether the runtime shows an image.
func (i *Instance) hasImage(reference string) (present bool, err error) {
	err = i.images(func(ctx context.Context, c runtimeapi.ImageServiceClient) error {
		response, err := c.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: imageSpec(reference)})
		present = response.GetImage() != nil
		return err
	})
	return present, err
}

// imageSpec names an image as a pod does.
func imageSpec(reference string) *runtimeapi.ImageSpec {
	return &runtimeapi.ImageSpec{Image: reference, UserSpecifiedImage: reference}
}

// images calls f with a client of the runtime's images. It works while the test is cleaned up too.
func (i *Instance) images(f func(context.Context, runtimeapi.ImageServiceClient) error) error {
	conn, err := dial(i.Endpoint)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(i.tb.Context()), importTimeout)
	defer cancel()
	return f(ctx, runtimeapi.NewImageServiceClient(conn))
}
