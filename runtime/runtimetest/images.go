package runtimetest

import (
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func imageCases() []namedCase {
	return []namedCase{
		{"a present image has a status", imagePresent},
		{"an absent image is no error", imageAbsent},
		{"removal of an absent image succeeds", imageRemoveAbsent},
		{"a pull that cannot work fails", imagePullAbsent},
		{"pull and remove", imagePull},
	}
}

func (e *env) image(ref string) *runtimeapi.Image {
	e.Helper()
	response, err := e.Images.ImageStatus(e.ctx, imageSpec(ref), false)
	if err != nil {
		e.Fatalf("ImageStatus of %s: %v", ref, err)
	}
	return response.GetImage()
}

func imagePresent(e *env) {
	image := e.image(e.Image)
	if image.GetId() == "" {
		e.Fatalf("%s has the status %v, want an ID", e.Image, image)
	}
	if byID := e.image(image.GetId()); byID.GetId() != image.GetId() {
		e.Errorf("status by ID %s gives %v", image.GetId(), byID)
	}
	for _, filter := range []*runtimeapi.ImageFilter{nil, {Image: imageSpec(e.Image)}} {
		list, err := e.Images.ListImages(e.ctx, filter)
		e.must(err)
		found := 0
		for _, i := range list {
			if i.GetId() == image.GetId() {
				found++
			}
		}
		if found != 1 {
			e.Errorf("list with filter %v has the image %d times, want once", filter, found)
		}
		if filter != nil && len(list) != 1 {
			e.Errorf("list of one image has %d", len(list))
		}
	}
}

func imageAbsent(e *env) {
	if image := e.image(e.AbsentImage); image != nil {
		e.Errorf("absent image has the status %v", image)
	}
	list, err := e.Images.ListImages(e.ctx, &runtimeapi.ImageFilter{Image: imageSpec(e.AbsentImage)})
	e.must(err)
	if len(list) != 0 {
		e.Errorf("absent image is listed: %v", list)
	}
}

func imageRemoveAbsent(e *env) {
	e.must(e.Images.RemoveImage(e.ctx, imageSpec(e.AbsentImage)))
}

func imagePullAbsent(e *env) {
	if ref, err := e.Images.PullImage(e.ctx, imageSpec(e.AbsentImage), nil, nil); err == nil {
		e.Errorf("pull of an image that does not exist returned %q", ref)
	}
	if image := e.image(e.AbsentImage); image != nil {
		e.Errorf("a failed pull left %v", image)
	}
}

// imagePull: the store knows the reference that a pull returns, a second pull succeeds,
// and after removal the image is absent.
func imagePull(e *env) {
	if e.PullImage == "" {
		e.Skip("the subject names no image to pull")
	}
	spec := imageSpec(e.PullImage)
	var id string
	for range 2 {
		ref, err := e.Images.PullImage(e.ctx, spec, nil, nil)
		e.must(err)
		image := e.image(ref)
		if image == nil {
			e.Fatalf("the store does not know %q, which the pull returned", ref)
		}
		id = image.GetId()
	}
	if image := e.image(e.PullImage); image.GetId() != id {
		e.Errorf("status by name has ID %q, by reference %q", image.GetId(), id)
	}
	for range 2 {
		e.must(e.Images.RemoveImage(e.ctx, spec))
	}
	if image := e.image(e.PullImage); image != nil {
		e.Errorf("a removed image has the status %v", image)
	}
}
