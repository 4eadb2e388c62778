package podwrighttest_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cleanup/imagegc"
	"github.com/podwright/podwright/podwrighttest"
	"github.com/podwright/podwright/runtime/cri"
)

// movedTag is a store in which another image has got the name example.com/data:1, as after a pull.
type movedTag struct{ cri.ImageService }

func (m movedTag) ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	images, err := m.ImageService.ListImages(ctx, filter)
	for _, i := range images {
		if slices.Contains(i.RepoTags, "example.com/data:1") {
			i.RepoTags = nil
			i.RepoDigests = []string{"example.com/data@sha256:" + strings.Repeat("0", 64)}
		}
	}
	return images, err
}

// TestMountedImageWithoutItsNameStays: IG2. The image that a container has mounted is in use although the pod's name for
// it is another image's by now.
func TestMountedImageWithoutItsNameStays(t *testing.T) {
	o := podwrighttest.Options{Configure: func(c *podwright.Config) {
		c.Images = movedTag{c.Images}
		c.ImageGC = &podwright.ImageGC{Policy: imagegc.Policy{MaxAge: time.Minute}, Period: time.Minute}
	}}
	podwrighttest.Run(t, o, func(n *podwrighttest.Node) {
		p := podwrighttest.Pod("web")
		p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "example.com/data:1"}}}}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
		n.Add(p)
		n.WaitPhase("web", v1.PodRunning)
		n.Advance(30 * time.Minute)
		images, err := n.Runtime().ListImages(t.Context(), nil)
		if err != nil || !slices.ContainsFunc(images, func(i *runtimeapi.Image) bool { return slices.Contains(i.RepoTags, "example.com/data:1") }) {
			t.Errorf("IG2: left are %v, %v", images, err)
		}
	})
}

// TestMountedImageOfAStoppingPodStays: IG2. It goes once the pod has stopped.
func TestMountedImageOfAStoppingPodStays(t *testing.T) {
	o := podwrighttest.Options{
		Programs: map[string]podwrighttest.Program{"main": {StopsIn: 20 * time.Minute}},
		Configure: func(c *podwright.Config) {
			c.ImageGC = &podwright.ImageGC{Policy: imagegc.Policy{MaxAge: time.Minute}, Period: time.Minute}
		},
	}
	podwrighttest.Run(t, o, func(n *podwrighttest.Node) {
		present := func() bool {
			images, err := n.Runtime().ListImages(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range images {
				if strings.Contains(strings.Join(i.RepoTags, " "), "example.com/data:1") {
					return true
				}
			}
			return false
		}
		p := podwrighttest.Pod("web")
		grace := int64(1800)
		p.Spec.TerminationGracePeriodSeconds = &grace
		p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "example.com/data:1"}}}}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
		n.Add(p)
		n.WaitPhase("web", v1.PodRunning)
		n.Remove("web")
		n.Advance(15 * time.Minute)
		if !present() || len(running(t, n)) != 1 {
			t.Errorf("while the pod stops: present %v, running %v", present(), running(t, n))
		}
		n.Advance(30 * time.Minute)
		if present() {
			t.Error("it stays after the pod's end")
		}
	})
}
