package pods

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods/internal/images"
)

// pullImageVolumes makes the images of image volumes present, once per sync and
// before any start (spec/runtime.md 9.10). A failure holds back the containers that
// mount the volume.
func (s *podSync) pullImageVolumes(ctx context.Context) {
	for i := range s.pod.Spec.Volumes {
		v := &s.pod.Spec.Volumes[i]
		ready, ok := s.volumes.ready[v.Name]
		if !ok || v.Image == nil || ready.Image == "" {
			continue
		}
		image, err := s.ensureImage(ctx, images.Request{
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

// volumeFailure holds back a container if one of its volumes is not ready, before
// anything is pulled for it. A missing image of a volume shows the same reasons as a
// missing image of the container. With another volume the container still waits for its
// creation, and FailedMount has told of it already (spec/runtime.md 22.1).
func (st *starting) volumeFailure() *startFailure {
	for name := range volumesOf(st.spec) {
		err := st.volumes.failed[name]
		if err == nil {
			continue
		}
		var e imageVolumeError
		if errors.As(err, &e) {
			f := st.pullFailure(e)
			f.message = fmt.Sprintf("volume %q: %s", name, f.message)
			return f
		}
		reason := reasonContainerCreating
		if len(st.pod.Spec.InitContainers) > 0 {
			reason = reasonPodInitializing
		}
		err = fmt.Errorf("volume %q: %w", name, err)
		return &startFailure{name: st.spec.Name, reason: reason, message: err.Error(), err: err, held: true}
	}
	return nil
}

// volumeImage tells the runtime which image a volume is: ref, and the pod's own name for it.
func (st *starting) volumeImage(volume, ref string) *runtimeapi.ImageSpec {
	out := &runtimeapi.ImageSpec{Image: ref, UserSpecifiedImage: ref, Annotations: st.pod.Annotations}
	for _, v := range st.pod.Spec.Volumes {
		if v.Name == volume && v.Image != nil {
			out.UserSpecifiedImage = v.Image.Reference
		}
	}
	return out
}

// imageVolumeProblem is why a container with image volumes cannot be created, in the words of
// its pod.
type imageVolumeProblem struct {
	text  string
	cause error
}

func (p *imageVolumeProblem) Error() string { return p.text }
func (p *imageVolumeProblem) Unwrap() error { return p.cause }

// aboutImageVolumes completes the error for a container with image volumes that cannot be
// created (RT7). It names images and volumes as the pod does, and the sub-path that the image
// lacks if the runtime quotes it. Otherwise it adds a likely cause, because runtimes do not
// announce whether they can mount images.
func (st *starting) aboutImageVolumes(config *runtimeapi.ContainerConfig, err error) error {
	text, hint := err.Error(), ""
	for _, vm := range st.spec.VolumeMounts {
		i := slices.IndexFunc(config.Mounts, func(m *runtimeapi.Mount) bool {
			return m.GetImage() != nil && m.GetContainerPath() == absolute(vm.MountPath)
		})
		if i < 0 {
			continue
		}
		mount := config.Mounts[i]
		text = strings.ReplaceAll(text, mount.Image.Image, mount.Image.UserSpecifiedImage)
		if sub := mount.ImageSubPath; sub != "" && quotes(err.Error(), sub) {
			return &imageVolumeProblem{fmt.Sprintf("volume %q: sub-path %q of its image cannot be mounted: %s", vm.Name, sub, text), err}
		}
		if hint == "" {
			hint = fmt.Sprintf(" (volume %q is an image volume, which this runtime may not support: containerd can from 2.1 on, CRI-O from 1.31 on)", vm.Name)
		}
	}
	switch cri.Class(err) {
	case runtime.ErrDeadline, runtime.ErrCanceled, runtime.ErrUnavailable, runtime.ErrAlreadyExists, runtime.ErrExhausted:
		return err // not about volumes
	}
	if hint == "" {
		return err
	}
	return &imageVolumeProblem{text + hint, err}
}

// quotes reports whether a text has a path as a word of its own, or as the end of one.
func quotes(text, path string) bool {
	return regexp.MustCompile(`(^|[\s"'/:])` + regexp.QuoteMeta(path) + `($|[\s"':,;)])`).MatchString(text)
}
