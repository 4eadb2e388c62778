package pods

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime/pods/internal/images"
)

// pullImageVolumes makes the images of image volumes present, once per sync and
// before any start (spec/runtime.md 9.10). A failure keeps the containers that
// mount the volume.
func (s *podSync) pullImageVolumes(ctx context.Context) {
	for i := range s.pod.Spec.Volumes {
		v := &s.pod.Spec.Volumes[i]
		ready, ok := s.volumes.ready[v.Name]
		if !ok || v.Image == nil || ready.Image == "" {
			continue
		}
		image, err := s.m.puller.Ensure(ctx, images.Request{
			Pod: s.pod, Sandbox: s.sandboxConfig, Handler: s.handler, Secrets: s.pullSecrets,
			Container: &v1.Container{Name: v.Name, Image: ready.Image, ImagePullPolicy: v.Image.PullPolicy},
			Event: func(eventtype, reason, format string, args ...any) {
				s.m.podEvent(s.pod, eventtype, reason, format, args...)
			},
		})
		s.result.Acted = s.result.Acted || image.Pulled
		if err != nil {
			s.volumes.failed[v.Name] = imageVolumeError{fmt.Errorf("volume %q: %w", v.Name, err)}
			continue
		}
		ready.Image = image.Ref
		s.volumes.ready[v.Name] = ready
	}
}

// imageVolumeError is why the image of a volume is not there.
type imageVolumeError struct{ error }

// Unwrap returns the puller's error.
func (e imageVolumeError) Unwrap() error { return e.error }

// imageVolumeFailure holds a container whose image volume has no image; it shows
// the same reasons as an image of its own would.
func (st *starting) imageVolumeFailure() *startFailure {
	for _, vm := range st.spec.VolumeMounts {
		var e imageVolumeError
		if errors.As(st.volumes.failed[vm.Name], &e) {
			f := st.pullFailure(e)
			f.message = fmt.Sprintf("volume %q: %s", vm.Name, f.message)
			return f
		}
	}
	return nil
}

// aboutImageVolumes says what may be wrong if a container with an image volume
// cannot be created: no runtime tells beforehand whether it can mount images.
func aboutImageVolumes(config *runtimeapi.ContainerConfig, err error) error {
	if !slices.ContainsFunc(config.Mounts, func(m *runtimeapi.Mount) bool { return m.GetImage() != nil }) {
		return err
	}
	return fmt.Errorf("%w (it has an image volume, which this runtime may not support: containerd can from 2.1 on, CRI-O from 1.31 on)", err)
}
