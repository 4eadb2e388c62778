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
			s.volumes.failed[v.Name] = imageVolumeError{err}
			continue
		}
		ready.Image = image.Ref
		s.volumes.ready[v.Name] = ready
	}
}

// imageVolumeError is why the image of a volume is missing.
type imageVolumeError struct{ error }

// Unwrap returns the puller's error.
func (e imageVolumeError) Unwrap() error { return e.error }

// volumeFailure holds a container if one of its volumes is not ready, before anything
// is pulled for it. A missing image of a volume shows the same reasons as a missing
// image of the container.
func (st *starting) volumeFailure(ctx context.Context) *startFailure {
	for _, vm := range st.spec.VolumeMounts {
		err := st.volumes.failed[vm.Name]
		if err == nil {
			continue
		}
		err = fmt.Errorf("volume mount %q: %w", vm.Name, err)
		var e imageVolumeError
		if errors.As(err, &e) {
			f := st.pullFailure(e)
			f.message = fmt.Sprintf("volume %q: %s", vm.Name, f.message)
			return f
		}
		return st.failed(ctx, reasonCreateContainerConfigError, err, "")
	}
	return nil
}

// aboutImageVolumes adds a likely cause if a container with an image volume cannot be
// created: runtimes do not announce whether they can mount images.
func aboutImageVolumes(config *runtimeapi.ContainerConfig, err error) error {
	if !slices.ContainsFunc(config.Mounts, func(m *runtimeapi.Mount) bool { return m.GetImage() != nil }) {
		return err
	}
	return fmt.Errorf("%w (it has an image volume, which this runtime may not support: containerd can from 2.1 on, CRI-O from 1.31 on)", err)
}
