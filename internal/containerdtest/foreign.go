package containerdtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	err := i.pullForeign()
	if err == nil {
		return nil
	}
	if present, statusErr := i.hasImage(Image); statusErr != nil || !present {
		return fmt.Errorf("it does not have the image %s, and has none from the test either (it must speak plain HTTP to registries on loopback): %w", Image, errors.Join(err, statusErr))
	}
	i.Image = Image
	return nil
}

// pullForeign lets the runtime pull the image from a registry that the test serves; when the test
// is over, it removes the image and the pods that use it. Each test has its own image, because
// packages use the runtime at the same time and some runtimes remove all names of an image
// together.
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
	err = i.images(func(ctx context.Context, c runtimeapi.ImageServiceClient) error {
		_, err := c.PullImage(ctx, &runtimeapi.PullImageRequest{Image: imageSpec(i.Image)})
		return err
	})
	if err != nil {
		return fmt.Errorf("pull %s: %w", i.Image, err)
	}
	i.tb.Cleanup(func() {
		// Volumes that an agent left mounted are beside the instance's folder.
		mounts := filepath.Dir(i.Root)
		if err := errors.Join(i.removePods(), i.removeImage(), unmountFrom(mounts)); err != nil {
			i.tb.Errorf("containerdtest: something of the test stays in the runtime: %v", err)
		}
	})
	present, err := i.hasImage(i.Image)
	if err == nil && !present {
		err = fmt.Errorf("it does not show the image %s after it was pulled", i.Image)
	}
	return err
}

// removeImage removes the image that was pulled.
func (i *Instance) removeImage() error {
	return i.images(func(ctx context.Context, c runtimeapi.ImageServiceClient) error {
		_, err := c.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: imageSpec(i.Image)})
		return err
	})
}

// removePods removes the pods whose containers use the image that was pulled; other users of the
// runtime do not have it.
func (i *Instance) removePods() error {
	var id string
	err := i.images(func(ctx context.Context, c runtimeapi.ImageServiceClient) error {
		response, err := c.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: imageSpec(i.Image)})
		id = response.GetImage().GetId()
		return err
	})
	if err != nil {
		return err
	}
	return i.client(func(ctx context.Context, c runtimeapi.RuntimeServiceClient) error {
		list, err := c.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
		if err != nil {
			return err
		}
		var problems []error
		pods := map[string]bool{}
		for _, container := range list.GetContainers() {
			if id == "" || !slices.Contains([]string{container.GetImageId(), container.GetImageRef(), container.GetImage().GetImage()}, id) &&
				container.GetImage().GetImage() != i.Image {
				continue
			}
			pods[container.GetPodSandboxId()] = true
			if container.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
				_, err := c.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: container.GetId()})
				problems = append(problems, err)
			}
		}
		for pod := range pods {
			_, stopErr := c.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: pod})
			_, removeErr := c.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: pod})
			problems = append(problems, stopErr, removeErr)
		}
		return errors.Join(problems...)
	})
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

// images calls f with a client of the runtime's images. It also works while the test is being cleaned up.
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
