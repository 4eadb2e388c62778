package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// slowVolumes is a volume manager without volumes. It calls a function when the engine asks it something.
type slowVolumes struct{ mounted, tearDown func(uid types.UID) }

func (slowVolumes) Handles(*v1.Pod, *v1.Volume) bool { return false }
func (slowVolumes) SetUp(context.Context, *v1.Pod, *v1.Volume) (pods.MountedVolume, error) {
	return pods.MountedVolume{}, errors.New("no volume of mine")
}

func (v slowVolumes) TearDown(_ context.Context, uid types.UID) error {
	if v.tearDown != nil {
		v.tearDown(uid)
	}
	return nil
}

func (v slowVolumes) Mounted(_ context.Context, uid types.UID) ([]string, error) {
	if v.mounted != nil {
		v.mounted(uid)
	}
	return nil, nil
}

// slowTree is a tree of cgroups in which destroy decides whether a cgroup is removed.
type slowTree struct {
	*leftTree
	destroy func(uid types.UID) (now bool)
}

func (s slowTree) Destroy(ctx context.Context, uid types.UID) error {
	if !s.destroy(uid) {
		return nil
	}
	return s.leftTree.Destroy(ctx, uid)
}

// TestRemovalHoldsUID (IN3): a pod comes back during a removal that takes 2 s and ignores its
// context. If anything was removed by then, the pod's next life waits for the end of the removal,
// says what for, and keeps all it has. 100 other pods notice nothing.
func TestRemovalHoldsUID(t *testing.T) {
	t.Parallel()
	for kind, options := range map[string]func(c *podwright.Config, slow func(uid types.UID) bool){
		"folder": func(c *podwright.Config, slow func(uid types.UID) bool) {
			c.Pods.Volumes = slowVolumes{mounted: func(uid types.UID) { slow(uid) }}
		},
		"volumes": func(c *podwright.Config, slow func(uid types.UID) bool) {
			c.Pods.Volumes = slowVolumes{tearDown: func(uid types.UID) { slow(uid) }}
		},
		"cgroup": func(c *podwright.Config, slow func(uid types.UID) bool) {
			left := &leftTree{cgroupTree: &cgroupTree{pods: map[types.UID]pods.CgroupResources{}}, reduced: map[types.UID]int{}}
			c.Pods.Cgroups = slowTree{left, slow}
		},
	} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r *rig
				removing := make(chan struct{}, 1)
				rt := fake.New(fake.Options{})
				r = newRig(t, rt, t.TempDir(), func(c *podwright.Config) {
					options(c, func(uid types.UID) bool {
						// Removals by the pod's own worker, and those of other pods, are not slow.
						if e, _ := r.engine.Explain(uid); uid != "uid-web" || e.Worker != nil {
							return false
						}
						select {
						case removing <- struct{}{}:
							<-time.After(2 * time.Second)
						default:
						}
						return true
					})
				}).start()
				var others []*v1.Pod
				for i := range 100 {
					others = append(others, newPod(fmt.Sprintf("other-%02d", i)))
				}
				web := withScratch(newPod("web"))
				r.set(append(others[:50:50], web)...)
				r.phase(web.UID, v1.PodRunning, 10*time.Second)
				r.set(others[:50]...)
				<-removing
				<-time.After(time.Second)
				r.set(append(others, web.DeepCopy())...)
				for _, p := range others {
					r.phase(p.UID, v1.PodRunning, 500*time.Millisecond)
				}
				waits := kind != "folder" // nothing has been removed by then, so the removal stops
				e, _ := r.engine.Explain(web.UID)
				if got := e.Worker != nil && strings.Contains(e.Worker.WaitingFor, "the removal of its previous life: "); got != waits {
					t.Errorf("what it waits for: %s", r.explain(web.UID))
				}
				r.within(10*time.Second, "the next life", func() error {
					if f := rt.Facts(web.UID, "main"); f.Running != 1 || f.Started != 2 {
						return fmt.Errorf("%+v, %s", f, r.explain(web.UID))
					}
					return nil
				})
				run := rt.Calls(fake.Match{Method: fake.RunPodSandbox, PodUID: web.UID})
				if first, second := run[0].Start, run[1].Start; waits != (second.Sub(first) >= 2*time.Second) {
					t.Errorf("the next life began %v after the first", second.Sub(first))
				}
				file := scratchFile(r.root, web.UID)
				if err := os.WriteFile(file, []byte("of the new life"), 0o600); err != nil {
					t.Fatal(err)
				}
				<-time.After(10 * time.Minute)
				if f := rt.Facts(web.UID, "main"); f.Running != 1 || f.Started != 2 {
					t.Errorf("ten minutes later: %+v", f)
				}
				if _, err := os.Stat(file); err != nil {
					t.Errorf("the running pod lost its data: %v", err)
				}
				if p := r.pod(web.UID); p == nil || p.Status.Phase != v1.PodRunning {
					t.Errorf("its status: %+v", p)
				}
			})
		})
	}
}

// TestReturnDuringRemovalFromRuntime (IN3): a pod comes back while its containers or sandbox
// are removed by a slow runtime. Nothing that the next life makes is removed.
func TestReturnDuringRemovalFromRuntime(t *testing.T) {
	t.Parallel()
	for _, method := range []fake.Method{fake.RemoveContainer, fake.RemovePodSandbox} {
		for _, after := range []time.Duration{0, 10 * time.Millisecond, time.Second, 2500 * time.Millisecond, 4 * time.Second} {
			t.Run(fmt.Sprintf("%s %v", method, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rt := fake.New(fake.Options{})
					r := newRig(t, rt, t.TempDir()).start()
					web := newPod("web")
					r.set(web)
					r.phase(web.UID, v1.PodRunning, 10*time.Second)
					rt.Inject(fake.Fault{Match: fake.Match{Method: method}, Effect: fake.Effect{Delay: 3 * time.Second}})
					r.set()
					r.within(10*time.Second, "the removal", func() error {
						if n := rt.Running(web.UID, "main"); n != 0 {
							return fmt.Errorf("%d containers run", n)
						}
						return nil
					})
					<-time.After(after)
					r.set(web.DeepCopy())
					r.within(time.Minute, "the next life", func() error {
						if f := rt.Facts(web.UID, "main"); f.Running != 1 || f.Started != 2 {
							return fmt.Errorf("%+v, %s", f, r.explain(web.UID))
						}
						return nil
					})
					<-time.After(10 * time.Minute)
					if f := rt.Facts(web.UID, "main"); f.Running != 1 || f.Started != 2 || f.Created != 2 {
						t.Errorf("ten minutes later: %+v", f)
					}
				})
			})
		}
	}
}

// TestHungRemovalHoldsOnlyItsUID (IN1, IN3): an unmount that never answers keeps only its own pod
// from living again, for as long as that lasts; then the pod lives again.
func TestHungRemovalHoldsOnlyItsUID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		var r *rig
		volumes := slowVolumes{tearDown: func(uid types.UID) {
			if e, _ := r.engine.Explain(uid); uid == "uid-web" && e.Worker == nil {
				<-answer
			}
		}}
		rt := fake.New(fake.Options{})
		r = newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.Pods.Volumes = volumes }).start()
		web, old := newPod("web"), newPod("old")
		r.set(web, old)
		r.phase(web.UID, v1.PodRunning, 10*time.Second)
		r.set(old)
		<-time.After(time.Minute)
		r.set(web.DeepCopy(), old)
		<-time.After(24 * time.Hour)
		if f := rt.Facts(web.UID, "main"); f.Started != 1 {
			t.Errorf("the pod started while its folder is removed: %+v", f)
		}
		r.set(web.DeepCopy(), newPod("new"))
		r.phase("uid-new", v1.PodRunning, 10*time.Second)
		r.within(10*time.Second, "the other pod's remains to go", func() error {
			if left := leftOf(r, "uid-old"); len(left) > 0 {
				return errors.New(strings.Join(left, ", "))
			}
			return nil
		})
		close(answer)
		r.phase(web.UID, v1.PodRunning, 10*time.Second)
	})
}

// TestInterruptedRemovalIsFinished (IN12): a volume that a killed agent was removing is removed
// completely at the next start.
func TestInterruptedRemovalIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		left := filepath.Join(root, "pods.removed")
		if err := os.MkdirAll(filepath.Join(left, "ABC", "deep"), 0o750); err != nil {
			t.Fatal(err)
		}
		for i := range 1000 {
			if err := os.WriteFile(filepath.Join(left, "ABC", "deep", fmt.Sprint(i)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r := newRig(t, fake.New(fake.Options{}), root).start()
		r.within(time.Second, "it to go", func() error {
			entries, err := os.ReadDir(left)
			if len(entries) > 0 {
				err = fmt.Errorf("%d entries are left", len(entries))
			}
			return err
		})
	})
}

// TestUpdateDuringPassKeepsNextLife (IN3): a pod is removed and comes back while it stops. A
// housekeeping pass that is about to begin its next life waits for the list of running pods.
// Updates during this wait change nothing: the pod lives again.
func TestUpdateDuringPassKeepsNextLife(t *testing.T) {
	t.Parallel()
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
