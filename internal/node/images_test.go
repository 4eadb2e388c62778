package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/cleanup/imagegc"
	"github.com/podwright/podwright/internal/rule"
)

// TestImagesOfAPod: IG11, images of containers of every kind and of volumes.
func TestImagesOfAPod(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Image: "init"}}, Containers: []v1.Container{{Image: "app"}, {}},
		EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Image: "debug"}}},
		Volumes:             []v1.Volume{{VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "data"}}}, {}},
	}}
	if got, want := imagesOf(pod), []string{"init", "app", "debug", "data"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// imageRuntime tells where its images are.
type imageRuntime struct {
	dirs []string
	err  error
}

func (r imageRuntime) ImageFsInfo(context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	out := &runtimeapi.ImageFsInfoResponse{}
	for _, dir := range r.dirs {
		out.ImageFilesystems = append(out.ImageFilesystems, &runtimeapi.FilesystemUsage{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: dir}})
	}
	return out, r.err
}

// TestImageFileSystem: as it is configured, or as the runtime says.
func TestImageFileSystem(t *testing.T) {
	dir, broken := t.TempDir(), errors.New("broken")
	for name, test := range map[string]struct {
		images Images
		want   string
		err    string
	}{
		"configured":        {Images{Path: dir, Fs: imageRuntime{err: broken}}, dir, ""},
		"the runtime's":     {Images{Fs: imageRuntime{dirs: []string{"", dir}}}, dir, ""},
		"unknown":           {Images{Fs: imageRuntime{}}, "", "set ImageGC.Dir"},
		"no answer":         {Images{Fs: imageRuntime{err: broken}}, "", "broken"},
		"no one to ask":     {Images{}, "", "set ImageGC.Dir"},
		"of another device": {Images{Path: dir + "/none"}, dir + "/none", "usage of"},
	} {
		got, err := test.images.Dir(t.Context())
		disk, diskErr := test.images.Disk(t.Context())
		if got != test.want || (err != nil) != (test.want == "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		switch {
		case test.err == "" && (diskErr != nil || disk.Capacity == 0 || disk.Available > disk.Capacity):
			t.Errorf("%s: %+v, %v", name, disk, diskErr)
		case test.err != "" && (diskErr == nil || !strings.Contains(diskErr.Error(), test.err)):
			t.Errorf("%s: %v, want %q", name, diskErr, test.err)
		}
	}
}

// TestDesiredImages: IG11: those of all desired pods.
func TestDesiredImages(t *testing.T) {
	images := Images{Pods: func() []*v1.Pod {
		return []*v1.Pod{{Spec: v1.PodSpec{Containers: []v1.Container{{Image: "app"}}}}, {Spec: v1.PodSpec{Containers: []v1.Container{{Image: "web"}}}}}
	}}
	if got := images.Desired(); !slices.Equal(got, []string{"app", "web"}) {
		t.Errorf("desired %v", got)
	}
}

// TestMountedImageOfAStoppingPod: IG2: an image that a pod has mounted as a volume is in use until the pod has stopped, also
// if no source wants the pod any more, or if it had to stop before the agent was restarted.
func TestMountedImageOfAStoppingPod(t *testing.T) {
	mounts := func(uid types.UID) *v1.Pod {
		pod := newPod(uid)
		pod.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: string(uid)}}}}
		return pod
	}
	r, _ := residents(mounts("wanted"))
	r.Stopping = func() map[types.UID]*v1.Pod { return map[types.UID]*v1.Pod{"stops": mounts("stops")} }
	r.Ending = func() []*v1.Pod { return []*v1.Pod{mounts("stopped-before")} }
	if got, want := (&Images{Pods: r.Everywhere}).Desired(), []string{"wanted", "stops", "stopped-before"}; !slices.Equal(got, want) {
		t.Errorf("in use are %v, want %v", got, want)
	}
}

// TestImagesNeedAFolderOrAnAge: without a file system images go by age only.
func TestImagesNeedAFolderOrAnAge(t *testing.T) {
	if err := (&Images{}).Collect(imagegc.Options{}); err == nil || !strings.Contains(err.Error(), "ImageGC.Dir is required") {
		t.Errorf("neither: %v", err)
	}
	if err := (&Images{Path: "/"}).Collect(imagegc.Options{}); err == nil || !strings.HasPrefix(err.Error(), "ImageGC: ") {
		t.Errorf("no store: %v", err)
	}
}

// TestImagesAreCollectedOnlyAfterCollect: before that nothing is planned or removed.
func TestImagesAreCollectedOnlyAfterCollect(t *testing.T) {
	n := &evictionNode{}
	i := &Images{Runtime: n, Path: t.TempDir(), Pods: func() []*v1.Pod { return nil }}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, collect := range []bool{false, true} {
		if collect {
			if err := i.Collect(imagegc.Options{Store: n, Containers: n}); err != nil {
				t.Fatal(err)
			}
		}
		var plan cleanup.Plan
		if err := errors.Join(i.Run(ctx), i.Reclaim(t.Context()), i.AddPlan(t.Context(), &plan, time.Now())); err != nil || len(plan.Actions) != 0 {
			t.Errorf("collected %v: %+v, %v", collect, plan, err)
		}
	}
	n.imageErr = errors.New("down")
	if err := i.AddPlan(t.Context(), &cleanup.Plan{}, time.Now()); err == nil {
		t.Error("a plan without images is no error")
	}
}

// TestImageAction gives the choice of an image the shape of a plan.
func TestImageAction(t *testing.T) {
	now := time.Unix(1000, 0)
	goes := imageAction(imagegc.Choice{Image: imagegc.Image{Key: "sha256:1", Names: []string{"app"}, Size: 7, FirstSeen: now.Add(-time.Minute)}, Remove: true, Reason: "unused"}, now)
	if goes.Object.ID != "app" || goes.Size != 7 || goes.Age.Duration != time.Minute || goes.Reason != "unused" || !goes.Allowed() {
		t.Errorf("%+v", goes)
	}
	stays := imageAction(imagegc.Choice{Image: imagegc.Image{Key: "sha256:2"}, Kept: rule.Denial{Rule: rule.SandboxReady, Why: "in use"}}, now)
	if stays.Object.ID != "sha256:2" || stays.Allowed() || stays.Age.Duration != 0 {
		t.Errorf("%+v", stays)
	}
}
