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

// TestUpdateDuringPassKeepsNextLife (IN3): a pod is removed and comes back while it stops. A
// pass of housekeeping is to begin its next life and waits for the list of what runs; what
// comes in that time changes nothing: the pod lives again.
func TestUpdateDuringPassKeepsNextLife(t *testing.T) {
	edited := func(p *v1.Pod, i int) *v1.Pod {
		p = p.DeepCopy()
		p.Labels = map[string]string{"edition": fmt.Sprint(i)}
		return p
	}
	for name, during := range map[string]func(r *rig, web *v1.Pod, i int){
		"updated":           func(r *rig, web *v1.Pod, i int) { r.set(edited(web, i)) },
		"removed and added": func(r *rig, web *v1.Pod, i int) { r.set(); r.set(web) },
	} {
		for _, policy := range []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever} {
			t.Run(name+" "+string(policy), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rt := byContainer(map[string]fake.Script{"main": {OnTERM: fake.Exit{After: 3 * time.Second}}})
					r := newRig(t, rt, t.TempDir()).start()
					web := newPod("web")
					web.Spec.RestartPolicy = policy
					r.set(web)
					r.phase(web.UID, v1.PodRunning, 10*time.Second)
					r.set()
					<-time.After(2 * time.Second)
					r.set(web)
					<-time.After(900 * time.Millisecond)
					rt.Inject(fake.Fault{Match: fake.Match{Method: fake.ListPodSandbox}, Effect: fake.Effect{Delay: 300 * time.Millisecond}})
					for i := range 500 {
						during(r, web, i)
						<-time.After(20 * time.Millisecond)
					}
					r.within(30*time.Second, "the second life", func() error {
						if f := rt.Facts(web.UID, "main"); f.Started < 2 || f.Running != 1 || f.MaxRunning != 1 {
							return fmt.Errorf("%+v, %s", f, r.explain(web.UID))
						}
						return nil
					})
					<-time.After(10 * time.Minute)
					if f := rt.Facts(web.UID, "main"); f.Running != 1 {
						t.Errorf("ten minutes later %+v, %s", f, r.explain(web.UID))
					}
					r.phase(web.UID, v1.PodRunning, time.Second)
				})
			})
		}
	}
}
