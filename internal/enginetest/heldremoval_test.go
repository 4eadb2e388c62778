package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// slowVolumes is a volume manager without volumes whose answers a test delays.
type slowVolumes struct {
	// before is called at the beginning of Mounted.
	before func(ctx context.Context, uid types.UID)
}

func (slowVolumes) Handles(*v1.Pod, *v1.Volume) bool { return false }
func (slowVolumes) SetUp(context.Context, *v1.Pod, *v1.Volume) (pods.MountedVolume, error) {
	return pods.MountedVolume{}, errors.New("no volume of mine")
}
func (slowVolumes) TearDown(context.Context, types.UID) error { return nil }
func (v slowVolumes) Mounted(ctx context.Context, uid types.UID) ([]string, error) {
	v.before(ctx, uid)
	return nil, nil
}

// TestRemovalOfFolderHoldsUID (IN3): the pod comes back while its folder is being removed.
// What the new life has in the folder stays.
func TestRemovalOfFolderHoldsUID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		removing := make(chan struct{}, 100)
		volumes := slowVolumes{before: func(_ context.Context, uid types.UID) {
			if uid == "uid-web" {
				removing <- struct{}{}
				<-time.After(2 * time.Second)
			}
		}}
		rt := fake.New(fake.Options{})
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.Pods.Volumes = volumes }).start()
		web := withScratch(newPod("web"))
		r.set(web, newPod("other"))
		r.phase(web.UID, v1.PodRunning, 10*time.Second)
		r.set(newPod("other"))
		<-removing
		r.set(web.DeepCopy(), newPod("other"))
		r.within(time.Minute, "the next life runs", func() error {
			if n := rt.Running(web.UID, "main"); n != 1 {
				return fmt.Errorf("%d containers run: %s", n, r.explain(web.UID))
			}
			return nil
		})
		file := scratchFile(r.root, web.UID)
		if err := os.WriteFile(file, []byte("of the new life"), 0o600); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if _, err := os.Stat(file); err != nil {
			t.Errorf("the running pod lost its data: %v", err)
		}
	})
}
