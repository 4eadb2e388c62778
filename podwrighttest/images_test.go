package podwrighttest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cleanup/imagegc"
	"github.com/podwright/podwright/podwrighttest"
)

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
