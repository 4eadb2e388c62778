//go:build linux

package process

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestImagesAreForgotten: a node on which each release has a folder of its own does not remember them all.
func TestImagesAreForgotten(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a folder as an image needs root")
	}
	r := newRuntime(t, modes()[0].supervisor)
	ask := func() string {
		folder := filepath.Join(t.TempDir(), "image")
		must(t, os.Mkdir(folder, 0o755))
		_, err := r.PullImage(t.Context(), &runtimeapi.ImageSpec{Image: folder}, nil, nil)
		must(t, err)
		return folder
	}
	known := func(after string, want ...string) {
		t.Helper()
		r.mu.Lock()
		defer r.mu.Unlock()
		if got := slices.Sorted(maps.Keys(r.folders)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("after %s: knows %q, want %q", after, got, want)
		}
	}
	sandbox, err := r.RunPodSandbox(t.Context(), sandboxConfig(t), "")
	must(t, err)
	create := func(name, folder string) string {
		id, err := r.CreateContainer(t.Context(), sandbox, shell("true", func(c *runtimeapi.ContainerConfig) {
			c.Metadata.Name, c.LogPath, c.Image.Image = name, name+"/0.log", folder
		}), nil)
		must(t, err)
		return id
	}

	used, unused := ask(), ask()
	first, second := create("first", used), create("second", used)
	must(t, r.RemoveContainer(t.Context(), first))
	known("the first of two containers", used, unused)
	must(t, r.RemoveContainer(t.Context(), second))
	known("the last container", unused)

	must(t, os.Remove(unused))
	_, err = r.ListImages(t.Context(), nil)
	must(t, err)
	known("a list without the folder")
}
