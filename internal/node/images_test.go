package node

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

// TestSandboxImages: containerd 1.6 does not pin the image of its sandboxes and tells
// its name (cleanup.md ND5).
func TestSandboxImages(t *testing.T) {
	for config, want := range map[string][]string{
		`{"containerd":{},"sandboxImage":"registry/pause:3.6"}`: {"registry/pause:3.6"},
		`{"sandboxImage":""}`: nil, `{`: nil, ``: nil, `{"sandboxImage":7}`: nil,
	} {
		if diff := cmp.Diff(want, sandboxImages(map[string]string{"config": config})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", config, diff)
		}
	}
	if sandboxImages(nil) != nil {
		t.Error("a name out of nothing")
	}
}

// TestImagesOf: IG11, images of containers of every kind and of volumes.
func TestImagesOf(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Image: "init"}}, Containers: []v1.Container{{Image: "app"}, {}},
		EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Image: "debug"}}},
		Volumes:             []v1.Volume{{VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "data"}}}, {}},
	}}
	if got, want := imagesOf(pod), []string{"init", "app", "debug", "data"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
