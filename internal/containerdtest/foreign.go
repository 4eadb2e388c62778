package containerdtest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// useForeign hands out a runtime that the test did not start.
func useForeign(tb testing.TB, endpoint string) *Instance {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), importTimeout)
	defer cancel()
	root := tb.TempDir()
	if err := prepareForeign(ctx, endpoint, root); err != nil {
		tb.Fatalf("containerdtest: the runtime of %s=%s cannot be used: %v", EndpointVariable, endpoint, err)
	}
	i := &Instance{Endpoint: endpoint, Image: Image, Root: root, tb: tb}
	i.before = i.mustList(nil, nil)
	return i
}

// prepareForeign makes sure that the runtime answers and has the image.
func prepareForeign(ctx context.Context, endpoint, root string) error {
	socket, ok := strings.CutPrefix(endpoint, "unix://")
	if !ok {
		return errors.New("want unix:///path/of/socket")
	}
	probeCtx, cancel := context.WithTimeout(ctx, foreignTimeout)
	defer cancel()
	if err := probe(probeCtx, endpoint); err != nil {
		return err
	}
	present, err := hasImage(ctx, endpoint)
	if err != nil || present {
		return err
	}
	if err := importForeign(ctx, socket, root); err != nil {
		return fmt.Errorf("it does not have the image %s, and importing it failed: %w", Image, err)
	}
	if present, err = hasImage(ctx, endpoint); err == nil && !present {
		err = fmt.Errorf("it does not show the image %s after its import", Image)
	}
	return err
}

// hasImage reports whether the runtime shows [Image].
func hasImage(ctx context.Context, endpoint string) (bool, error) {
	conn, err := dial(endpoint)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	response, err := runtimeapi.NewImageServiceClient(conn).ImageStatus(ctx, &runtimeapi.ImageStatusRequest{
		Image: &runtimeapi.ImageSpec{Image: Image},
	})
	return response.GetImage() != nil, err
}

// importForeign imports the image with ctr, which works if the runtime is a
// containerd.
func importForeign(ctx context.Context, socket, root string) error {
	t := &tools{}
	for name, file := range map[string]*string{"ctr": &t.ctr, "busybox": &t.busybox, "go": &t.goTool} {
		found, err := exec.LookPath(name)
		if err != nil {
			return err
		}
		*file = found
	}
	if err := mustBeStatic(t.busybox); err != nil {
		return err
	}
	l := layout{root}
	if err := buildArchive(ctx, l.images(), filepath.Join(root, "pause"), t); err != nil {
		return err
	}
	_, err := run(ctx, t.ctr, "-a", socket, "-n", "k8s.io", "images", "import", l.images())
	return err
}
