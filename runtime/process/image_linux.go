package process

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
)

// hostImage is the image that is the agent's own root file system.
const hostImage = "host"

// image is a resolved image.
type image struct {
	ref  string // the image's one name and ID: "host" or a path
	root string // the folder to enter, "" for the host's root
}

// resolveImage finds the image that a name means. Its errors name the image and the
// two valid forms.
func resolveImage(name string) (image, error) {
	// Callers that complete image names add this tag.
	ref := strings.TrimSuffix(name, ":latest")
	fail := func(class error, why string) error {
		return fmt.Errorf("image %q: %s; this runtime pulls nothing, an image is %q or, for an agent that runs as root, "+
			"the absolute path of a folder with a root file system: %w", name, why, hostImage, class)
	}
	switch {
	case ref == hostImage:
		return image{ref: hostImage}, nil
	case !filepath.IsAbs(ref) || strings.ContainsFunc(ref, unicode.IsControl):
		return image{}, fail(runtime.ErrInvalid, "not a path")
	case hasDotDot(ref) || filepath.Clean(ref) != ref || ref == "/":
		return image{}, fail(runtime.ErrInvalid, "not a clean path of a folder other than /")
	case os.Geteuid() != 0:
		return image{}, fail(runtime.ErrFailedPrecondition, fmt.Sprintf("the agent runs as user %d", os.Geteuid()))
	}
	info, err := os.Stat(ref)
	if err != nil {
		return image{}, fail(runtime.ErrNotFound, err.Error())
	}
	if !info.IsDir() {
		return image{}, fail(runtime.ErrNotFound, "not a folder")
	}
	return image{ref: ref, root: ref}, nil
}

func (i image) api() *runtimeapi.Image {
	return &runtimeapi.Image{
		Id: i.ref, RepoTags: []string{i.ref}, Spec: &runtimeapi.ImageSpec{Image: i.ref},
		// The user of a container whose config names none.
		Uid:    &runtimeapi.Int64Value{Value: int64(os.Geteuid())},
		Pinned: true, // removing it would free nothing
	}
}

// ListImages returns the image "host", the folders that containers use, and those
// asked for since New, until the last container that uses one is removed.
func (r *Runtime) ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	leave, err := r.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if want := filter.GetImage().GetImage(); want != "" {
		i, err := resolveImage(want)
		if err != nil {
			return []*runtimeapi.Image{}, nil
		}
		return []*runtimeapi.Image{i.api()}, nil
	}
	r.mu.Lock()
	refs := map[string]bool{hostImage: true}
	maps.Copy(refs, r.folders)
	for _, c := range r.containers {
		refs[c.record.ImageRef] = true
	}
	r.mu.Unlock()
	out := []*runtimeapi.Image{}
	for _, ref := range slices.Sorted(maps.Keys(refs)) {
		i, err := resolveImage(ref)
		if err != nil {
			r.forgetImage(ref)
			continue
		}
		out = append(out, i.api())
	}
	return out, nil
}

// forgetImage drops a folder from those to list, so that they are not more than what is in use.
func (r *Runtime) forgetImage(ref string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.folders, ref)
}

// image resolves a name and remembers it as one to list.
func (r *Runtime) image(name string) (image, error) {
	i, err := resolveImage(name)
	if err == nil {
		r.mu.Lock()
		r.folders[i.ref] = true
		r.mu.Unlock()
	}
	return i, err
}

// ImageStatus returns the image's status, with a nil Image for a name that is not
// an image of this runtime.
func (r *Runtime) ImageStatus(ctx context.Context, spec *runtimeapi.ImageSpec, _ bool) (*runtimeapi.ImageStatusResponse, error) {
	leave, err := r.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	i, err := r.image(spec.GetImage())
	if err != nil {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	return &runtimeapi.ImageStatusResponse{Image: i.api()}, nil
}

// PullImage fetches nothing: it returns the name of an image that is present, and
// for any other an error that names the image and the two forms of this runtime
// ([runtime.ErrInvalid], or [runtime.ErrNotFound] for a missing folder).
func (r *Runtime) PullImage(ctx context.Context, spec *runtimeapi.ImageSpec, _ *runtimeapi.AuthConfig, _ *runtimeapi.PodSandboxConfig) (string, error) {
	leave, err := r.enter(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	i, err := r.image(spec.GetImage())
	return i.ref, err
}

// RemoveImage removes nothing. It succeeds for an absent image and returns
// [runtime.ErrFailedPrecondition] for one that is present: the host's root and the
// user's folders are not the runtime's to remove.
func (r *Runtime) RemoveImage(ctx context.Context, spec *runtimeapi.ImageSpec) error {
	leave, err := r.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	i, err := resolveImage(spec.GetImage())
	if err != nil {
		return nil
	}
	return fmt.Errorf("image %q is not this runtime's to remove: %w", i.ref, runtime.ErrFailedPrecondition)
}
