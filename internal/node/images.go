package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/cleanup/imagegc"
	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/internal/rule"
)

// Images knows the images of the node: which file system they are on, which are needed and, after
// Collect, which to remove.
type Images struct {
	// Runtime may name the sandbox image.
	Runtime RuntimeStatus
	// Fs is nil if the store does not say where its images are. Calls contains its panics; nil: they are not listed.
	Fs    imagegc.ImageFs
	Calls *foreign.Calls
	// Path is any path on the file system of the images. Empty: Fs is asked.
	Path string
	// Pods returns the desired pods and those that have not stopped yet.
	Pods func() []*v1.Pod
	// Views shows what containers have mounted; nil: nothing.
	Views Views
	// Remembered returns the pods that sources may want and have not named; nil: none.
	Remembered func() []*v1.Pod
	// Permit asks everything that may object to the removal of an image (IN11). Nil: all may be removed.
	Permit Permit
	// Kept are names of images that are always kept.
	Kept []string

	collector *imagegc.Collector // nil: no image is removed
}

// Collect makes Run remove unused images; o has what this package does not know. If the file system
// of the images is unknown, images are removed only by age.
func (i *Images) Collect(o imagegc.Options) (err error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.Disk, o.Desired = i.Disk, i.Desired
	kept := imagegc.SandboxImages(i.Runtime, i.Kept...)
	o.Keep = func(ctx context.Context) ([]string, error) { return answered(ctx, o.Clock, "Status", kept) }
	o.Permits = func(c imagegc.Choice, now time.Time) (permitted, open bool) {
		if i.Permit == nil {
			return true, false
		}
		denial := i.Permit(imageAction(c, now))
		return denial.IsZero(), denial.Rule == rule.TryLater
	}
	if i.Fs == nil && i.Path == "" {
		if o.Policy.MaxAge == 0 {
			return errors.New("ImageGC.Dir is required: the runtime does not say where its images are")
		}
		o.Disk = nil
	}
	if i.collector, err = imagegc.New(o); err != nil {
		return fmt.Errorf("ImageGC: %w", err)
	}
	return nil
}

// Run collects images until ctx ends.
func (i *Images) Run(ctx context.Context) error {
	if i.collector == nil {
		<-ctx.Done()
		return nil
	}
	if err := i.collector.Run(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

// Problems returns what the collection waits for, but for calls of the runtime.
func (i *Images) Problems() []problem.Problem {
	if i.collector == nil {
		return nil
	}
	return i.collector.Problems()
}

// Reclaim removes every image that may be removed, because the disk is full.
func (i *Images) Reclaim(ctx context.Context) error {
	if i.collector == nil {
		return nil
	}
	_, err := i.collector.Reclaim(ctx)
	return err
}

// AddPlan adds to a plan what a collection of images would do now.
func (i *Images) AddPlan(ctx context.Context, plan *cleanup.Plan, now time.Time) error {
	if i.collector == nil {
		return nil
	}
	images, err := i.collector.Plan(ctx)
	for _, c := range images.Choices {
		plan.Add(imageAction(c, now))
	}
	return err
}

// Dir returns a path on the file system that holds the images.
func (i *Images) Dir(ctx context.Context) (string, error) {
	if i.Path != "" {
		return i.Path, nil
	}
	if i.Fs == nil {
		return "", fmt.Errorf("%w; set ImageGC.Dir", imagegc.ErrNoImageFs)
	}
	dir, err := contained(i.Calls, foreign.Call{Kind: problem.RuntimeCall, Name: "ImageFsInfo"}, func() (string, error) {
		return imagegc.RuntimeDir(ctx, i.Fs)
	})
	if errors.Is(err, imagegc.ErrNoImageFs) {
		err = fmt.Errorf("%w; set ImageGC.Dir", err)
	}
	return dir, err
}

// Disk reads the usage of the file system that holds the images.
func (i *Images) Disk(ctx context.Context) (imagegc.Disk, error) {
	dir, err := i.Dir(ctx)
	if err != nil {
		return imagegc.Disk{}, err
	}
	return imagegc.DiskAt(dir)
}

// Desired names the images of the desired pods, started or not (IG11), of those that have not stopped
// yet (IG2), and of those that a source may want but has not named (IN11). What containers have mounted
// is added as the runtime names it (IG2): a pod's own name for it may be another image's by now.
func (i *Images) Desired() []string {
	names := i.mounted()
	for _, pod := range i.Pods() {
		names = append(names, imagesOf(pod)...)
	}
	if i.Remembered != nil {
		for _, pod := range i.Remembered() {
			names = append(names, imagesOf(pod)...)
		}
	}
	return names
}

// mounted names the images that containers have as volumes. The runtime is not asked.
func (i *Images) mounted() (names []string) {
	if i.Views == nil {
		return nil
	}
	for _, pod := range lastRead(i.Views) {
		for _, c := range pod.Containers {
			names = append(names, c.MountedImages...)
		}
	}
	return names
}

// imagesOf names the images of a pod's containers and volumes.
func imagesOf(pod *v1.Pod) []string {
	var names []string
	add := func(name string) {
		if name != "" {
			names = append(names, name)
		}
	}
	for i := range pod.Spec.InitContainers {
		add(pod.Spec.InitContainers[i].Image)
	}
	for i := range pod.Spec.Containers {
		add(pod.Spec.Containers[i].Image)
	}
	for i := range pod.Spec.EphemeralContainers {
		add(pod.Spec.EphemeralContainers[i].Image)
	}
	for i := range pod.Spec.Volumes {
		if image := pod.Spec.Volumes[i].Image; image != nil {
			add(image.Reference)
		}
	}
	return names
}

// imageAction turns the choice about an image into an action of a plan.
func imageAction(c imagegc.Choice, now time.Time) cleanup.Action {
	a := cleanup.Action{
		Step: cleanup.StepImages, Object: cleanup.Object{ID: c.Image.Key}, Reason: c.Reason, Size: int64(min(c.Image.Size, 1<<62)),
	}
	if len(c.Image.Names) > 0 {
		a.Object.ID = c.Image.Names[0]
	}
	if since := c.Image.FirstSeen; !since.IsZero() {
		a.Age = metav1.Duration{Duration: now.Sub(since).Truncate(time.Second)}
	}
	if !c.Remove {
		a.Reason, a.Forbidden = "an image", c.Kept
	}
	return a
}
