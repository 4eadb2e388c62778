package pods_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// startsLate has a second container whose image is pulled for a day.
func startsLate(w *world, change func(*v1.Pod)) *v1.Pod {
	w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.PullImage, Func: func(c fake.Call) bool {
		return c.Request.(*runtimeapi.PullImageRequest).GetImage().GetImage() == "example.com/late:1"
	}}, Effect: fake.Effect{Delay: 24 * time.Hour}})
	return newPod(change, func(p *v1.Pod) { p.Spec.Containers = append(p.Spec.Containers, container("late")) })
}

// syncs runs one sync until the returned function is called.
func syncs(w *world, pod *v1.Pod) (end func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.m.SyncPod(ctx, pod, nil) }()
	return func() { cancel(); <-done }
}

// shown is the content of the file with this name in a volume.
func shown(w *world, name string) string {
	w.t.Helper()
	var content []byte
	err := filepath.WalkDir(w.opts.RootDir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == name && d.Type().IsRegular() {
			content, err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		w.t.Error(err)
	}
	return string(content)
}

// IN15, 25.2: while one image is pulled for a day, the containers that run get new tokens, although nothing is told.
func TestTokensAreRenewedDuringALongPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &issuer{text: "first"}
		w, _ := volumeWorld(t, func(o *pods.Options) { o.Projections = pods.Projections{Token: source} })
		pod := startsLate(w, mounting(projected(tokenFor("vault"))))
		defer syncs(w, pod)()
		pass(600 * second)
		w.wantState(pod, "app:running late:none")
		source.set("second", nil)
		pass(61 * second)
		synctest.Wait()
		if got := shown(w, "token"); !strings.HasPrefix(got, "second") {
			t.Errorf("the running container has the token %q", got)
		}
	})
}

// slowShelf is a shelf whose secret named slow is read slowly.
type slowShelf struct{ *shelf }

func (s slowShelf) GetSecret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	if name == "slow" {
		pass(5 * second)
	}
	return s.shelf.GetSecret(ctx, namespace, name)
}

// IN15: a change that comes after a volume was read, and before a long pull begins, is not lost.
func TestChangeBeforeALongPullIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := newShelf()
		objects.secret("s", map[string]string{"k": "old"})
		objects.secret("slow", map[string]string{"other": "x"})
		w, _ := volumeWorld(t, func(o *pods.Options) { o.Objects = slowShelf{objects} })
		pod := startsLate(w, func(p *v1.Pod) {
			for _, name := range []string{"s", "slow"} {
				p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{
					Name: name, VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: name}},
				})
				p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
			}
		})
		defer syncs(w, pod)()
		pass(second)
		objects.secret("s", map[string]string{"k": "new"})
		w.m.Refresh(pod.UID)
		pass(30 * second)
		synctest.Wait()
		w.wantState(pod, "app:running late:none")
		if got := shown(w, "k"); got != "new" {
			t.Errorf("the running container has %q", got)
		}
	})
}

// hangingShelf is a shelf that, once it hangs, gives no secret within 10 s.
type hangingShelf struct {
	*shelf
	hangs atomic.Bool
}

func (h *hangingShelf) GetSecret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	if !h.hangs.Load() {
		return h.shelf.GetSecret(ctx, namespace, name)
	}
	select {
	case <-time.After(10 * second):
		return nil, errors.New("no answer")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// IN15: the end of a pull is not missed while volumes wait for their objects.
func TestPullEndsWhileObjectsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := &hangingShelf{shelf: newShelf()}
		w, _ := volumeWorld(t, func(o *pods.Options) { o.Objects = objects })
		pod := startsLate(w, func(p *v1.Pod) {
			for _, name := range []string{"a", "b"} {
				objects.secret(name, map[string]string{"k": "v"})
				p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{
					Name: name, VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: name}},
				})
				p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
			}
		})
		defer syncs(w, pod)()
		pass(24*time.Hour - 2*second)
		w.wantState(pod, "app:running late:none")
		objects.hangs.Store(true)
		w.m.Refresh(pod.UID)
		pass(3 * second)
		synctest.Wait()
		w.wantState(pod, "app:running late:running")
	})
}
