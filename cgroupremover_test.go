package podwright

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestCgroupRemover is cleanup.md 3.16: cgroups are destroyed beside the passes, each
// once however often it is asked for, a failure delays no other, and a pod that came
// back neither loses its cgroup nor is set up before a removal has ended.
func TestCgroupRemover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var destroyed []types.UID
		back := map[types.UID]bool{"back": true}
		r := newCgroupRemover(func(ctx context.Context, uid types.UID) error {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			destroyed = append(destroyed, uid)
			if uid == "bad" {
				return errors.New("busy")
			}
			return nil
		}, func(uid types.UID) bool { return !back[uid] }, logr.Discard())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.run(ctx) }()
		for _, uid := range []types.UID{"bad", "bad", "back", "a", "a"} {
			r.Destroy(uid)
		}
		synctest.Wait()
		r.Destroy("bad") // in hand already
		begin := time.Now()
		if err := r.settle(t.Context(), "other"); err != nil || time.Since(begin) > 0 {
			t.Errorf("another pod waits: %v", err)
		}
		if err := r.settle(t.Context(), "bad"); err != nil || time.Since(begin) != time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		<-time.After(500 * time.Millisecond)
		short, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		if err := r.settle(short, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		<-time.After(10 * time.Second)
		synctest.Wait()
		if want := []types.UID{"bad", "a"}; !slices.Equal(destroyed, want) {
			t.Errorf("destroyed %v, want %v", destroyed, want)
		}
		r.Destroy("last")
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

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
