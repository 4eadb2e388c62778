package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop/source"
)

// The edge cases of spec/cleanup.md that concern the whole engine, on a fake runtime
// and real folders.

// forbidden returns what an operator reads in the plan: the rule that forbids each action, by step
// and pod; "" if the action is allowed.
func (r *rig) forbidden() map[string]string {
	r.t.Helper()
	plan, err := r.engine.CleanupPlan(r.t.Context())
	if err != nil {
		r.t.Log("the plan is incomplete:", err)
	}
	out := map[string]string{}
	for _, a := range plan.Actions {
		out[a.Step.String()+" "+string(a.PodUID)] = a.Forbidden.String()
	}
	return out
}

// reads checks that the plan forbids these actions for reasons that begin with these texts.
func (r *rig) reads(want map[string]string) {
	r.t.Helper()
	got := r.forbidden()
	for action, rule := range want {
		if have, planned := got[action]; !planned || !strings.HasPrefix(have, rule) || rule == "" && have != "" {
			r.t.Errorf("the plan says of %q: %q (planned: %v), want %q; all of it: %q", action, have, planned, rule, got)
		}
	}
}

// changing counts the calls that stop or remove something.
func changing(rt *fake.Runtime) (n int) {
	for _, m := range []fake.Method{fake.StopContainer, fake.RemoveContainer, fake.StopPodSandbox, fake.RemovePodSandbox} {
		n += rt.CallCount(m)
	}
	return n
}

// TestSilentSource: cleanup edge case 1, SG1-SG3, HI1: one of three sources never answers. Running
// pods continue, and the engine stops, collects and removes nothing, neither pods that no source
// names nor the remains of dead ones. The plan says why, and what it waits for. Once the source has
// answered, all of that goes.
func TestSilentSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root := byContainer(map[string]fake.Script{"job": {Exit: &fake.Exit{After: time.Second}}}), t.TempDir()
		first := newRig(t, rt, root).start()
		first.set(newPod("web"), newPod("unnamed"), withPolicy(newPod("dead", "job"), v1.RestartPolicyNever))
		first.phase("uid-web", v1.PodRunning, time.Minute)
		first.phase("uid-unnamed", v1.PodRunning, time.Minute)
		first.phase("uid-dead", v1.PodSucceeded, time.Minute)
		<-time.After(5 * time.Second)
		first.stop()
		if err := os.MkdirAll(filepath.Join(root, "pods", "uid-left", "containers"), 0o750); err != nil {
			t.Fatal(err)
		}

		more := map[string]*source.Channel{}
		r := newRig(t, rt, root, func(c *podwright.Config) {
			for _, name := range []string{"empty", "silent"} {
				more[name] = source.NewChannel(source.ChannelOptions{Name: name, NodeName: "n1"})
				c.Sources = append(c.Sources, more[name])
			}
		}).start()
		before := changing(rt)
		r.set(newPod("web"))
		if err := more["empty"].Set(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Minute)
		synctest.Wait()
		if n := changing(rt) - before; n > 0 || rt.Running("uid-web", "main") != 1 || rt.Running("uid-unnamed", "main") != 1 || starts(rt, "uid-web") != 1 {
			t.Errorf("%d calls that stop or remove, web was started %d times", n, starts(rt, "uid-web"))
		}
		if left := leftOf(r, "uid-dead"); len(left) != 3 { // sandbox, folder, logs
			t.Errorf("left of the dead pod: %v", left)
		}
		r.reads(map[string]string{
			"remove pod folder uid-left": "SG1: ", "remove pod folder uid-dead": "SG1: ",
			"remove logs uid-dead": "SG1: ", "remove container uid-dead": "ND3: ", "remove sandbox uid-dead": "ND4: ",
		})
		select {
		case <-r.engine.Ready():
			t.Error("an engine that has not heard a source is ready")
		default:
		}

		if err := more["silent"].Set(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		r.within(2*time.Minute, "the pod without a source to go", func() error {
			var left []string
			for _, uid := range []string{"uid-unnamed", "uid-dead", "uid-left"} {
				left = append(left, leftOf(r, uid)...)
			}
			if len(left) > 0 {
				return errors.New(strings.Join(left, ", "))
			}
			return nil
		})
		if starts(rt, "uid-web") != 1 || rt.Running("uid-web", "main") != 1 {
			t.Error("web was touched")
		}
	})
}

// TestListFailsMidway: cleanup edge cases 2 and 4, HK4, ND11: while either of the runtime's two
// lists fails, running pods without a manifest are neither killed nor taken for dead, and folders
// stay; health and the plan say why. Afterwards the orphan gets 1 s, because its own grace is
// unknown, and all its remains go.
func TestListFailsMidway(t *testing.T) {
	for _, method := range []fake.Method{fake.ListPodSandbox, fake.ListContainers} {
		t.Run(string(method), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt, root := byContainer(map[string]fake.Script{"deaf": {IgnoreTERM: true}}), t.TempDir()
				first := newRig(t, rt, root).start()
				orphan := newPod("orphan", "deaf")
				orphan.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600)
				first.set(newPod("web"), orphan)
				first.phase("uid-web", v1.PodRunning, time.Minute)
				first.phase("uid-orphan", v1.PodRunning, time.Minute)
				<-time.After(5 * time.Second)
				first.stop()
				if err := os.RemoveAll(filepath.Join(root, "state")); err != nil { // the next engine does not know the pods
					t.Fatal(err)
				}
				if err := os.MkdirAll(filepath.Join(root, "pods", "uid-left"), 0o750); err != nil {
					t.Fatal(err)
				}

				r := newRig(t, rt, root).start()
				before := changing(rt)
				repair := rt.Inject(fake.Fault{Match: fake.Match{Method: method}, Effect: fake.Effect{Err: errors.New("the list is broken")}})
				r.set(newPod("web"))
				<-time.After(5 * time.Minute)
				synctest.Wait()
				if n := changing(rt) - before; n > 0 || rt.Running("uid-orphan", "deaf") != 1 || rt.Running("uid-web", "main") != 1 {
					t.Errorf("%d calls that stop or remove", n)
				}
				if err := r.engine.Healthy(); err == nil || !strings.Contains(err.Error(), "the list is broken") {
					t.Errorf("health %v", err)
				}
				if _, err := r.engine.CleanupPlan(t.Context()); err == nil || !strings.Contains(err.Error(), "the list is broken") {
					t.Errorf("the plan hides why it is incomplete: %v", err)
				}
				r.reads(map[string]string{"remove pod folder uid-left": "ND11: the list of running pods failed: ", "remove pod folder uid-orphan": "ND11: "})

				repair()
				r.within(2*time.Minute, "the orphan and the folder to go", func() error {
					if left := append(leftOf(r, "uid-orphan"), leftOf(r, "uid-left")...); len(left) > 0 {
						return errors.New(strings.Join(left, ", "))
					}
					return r.engine.Healthy()
				})
				for _, c := range rt.Calls(fake.Match{Method: fake.StopContainer, PodUID: "uid-orphan"}) {
					if grace := c.Request.(*runtimeapi.StopContainerRequest).Timeout; grace > 2 {
						t.Errorf("edge 4: stopped with %d s of grace", grace)
					}
				}
				if starts(rt, "uid-web") != 1 || rt.Running("uid-web", "main") != 1 {
					t.Error("web was touched")
				}
			})
		})
	}
}

// TestForcedDeletion: cleanup edge case 3: a pod that is being terminated vanishes from its source.
// It ends as before, with what is left of its grace. Nothing of it is removed until then, and
// everything afterwards. Its end is reported.
func TestForcedDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(map[string]fake.Script{"slow": {OnTERM: fake.Exit{After: 20 * time.Second, Code: 3}}})
		var told v1.PodStatus
		r := newRig(t, rt, t.TempDir(), sinks(status.SinkFunc(func(_ context.Context, u status.Update) (status.StoreResult, error) {
			told = *u.Status
			return status.Stored, nil
		}))).start()
		pod := newPod("web", "slow")
		pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
		r.set(pod)
		r.phase(pod.UID, v1.PodRunning, time.Minute)
		<-time.After(5 * time.Second)
		deleted := pod.DeepCopy()
		deleted.DeletionTimestamp, deleted.DeletionGracePeriodSeconds = ptr.To(metav1.Now()), ptr.To[int64](30)
		r.set(deleted)
		begun := time.Now()
		<-time.After(5 * time.Second)
		r.set() // the forced deletion
		<-time.After(10 * time.Second)
		synctest.Wait()
		if left := leftOf(r, "uid-web"); len(left) != 3 || rt.Running(pod.UID, "slow") != 1 {
			t.Errorf("15 s into its grace there is left of it: %v", left)
		}
		r.reads(map[string]string{"remove pod folder uid-web": "ND2: the pod runs"})
		r.within(time.Minute, "all of it to go", func() error {
			if left := leftOf(r, "uid-web"); len(left) > 0 {
				return errors.New(strings.Join(left, ", "))
			}
			return nil
		})
		if took := time.Since(begun); took < 20*time.Second || took > 25*time.Second {
			t.Errorf("gone after %v, it needs 20 s to end", took)
		}
		if end := told.ContainerStatuses[0].State.Terminated; end == nil || end.ExitCode != 3 {
			t.Errorf("told: %+v", told.ContainerStatuses)
		}
		if r.forbidden()["remove pod folder uid-web"] != "" {
			t.Error("the plan still speaks of it")
		}
	})
}

// mountedDisks is a volume manager whose mounted volumes a test sets.
type mountedDisks struct {
	mu      sync.Mutex
	mounted []string
	err     error
}

func (m *mountedDisks) set(err error, names ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mounted, m.err = names, err
}

func (m *mountedDisks) Handles(*v1.Pod, *v1.Volume) bool { return false }

func (m *mountedDisks) SetUp(context.Context, *v1.Pod, *v1.Volume) (pods.MountedVolume, error) {
	return pods.MountedVolume{}, errors.New("not mine")
}

func (m *mountedDisks) TearDown(context.Context, types.UID) error { return nil }

func (m *mountedDisks) Mounted(context.Context, types.UID) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mounted, m.err
}

// leftTree is a tree of cgroups that lists what is left in it.
type leftTree struct {
	*cgroupTree
	mu      sync.Mutex
	reduced map[types.UID]int
}

func (l *leftTree) List() (uids []types.UID, _ error) {
	l.locked(func() { uids = slices.Sorted(maps.Keys(l.pods)) })
	return uids, nil
}

func (l *leftTree) ReduceCPU(uid types.UID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reduced[uid]++
	return nil
}

func (l *leftTree) times(uid types.UID) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reduced[uid]
}

// TestVolumeStillMounted: cleanup edge cases 10 and 11, OD2, ND6: the remains of a pod from an
// earlier agent include a volume that is, or may be, mounted. The folder and the cgroup stay, the
// cgroup with the smallest weight, set once. The plan names the volume or the error. Once the
// volume is known to be unmounted, both go.
func TestVolumeStillMounted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		mounted  []string
		err      error
		dir, cpu string
	}{
		"edge 10: mounted":          {[]string{"data"}, nil, "OD2: failed, next try in ", "ND6: volumes of the pod are still there"},
		"edge 11: it does not know": {nil, errors.New("no table of mounts"), "OD2: failed, next try in ", "ND6: it is not known whether volumes of the pod are still there: "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const uid = types.UID("uid-left")
				disks := &mountedDisks{}
				disks.set(tc.err, tc.mounted...)
				tree := &leftTree{cgroupTree: &cgroupTree{pods: map[types.UID]pods.CgroupResources{uid: {}}}, reduced: map[types.UID]int{}}
				root := t.TempDir()
				if err := os.MkdirAll(filepath.Join(root, "pods", string(uid), "volumes", "example.com~disk", "data"), 0o750); err != nil {
					t.Fatal(err)
				}
				r := newRig(t, fake.New(fake.Options{}), root, func(c *podwright.Config) { c.Pods.Cgroups, c.Pods.Volumes = tree, disks }).start()
				r.set(newPod("web"))
				r.phase("uid-web", v1.PodRunning, time.Minute)
				<-time.After(20 * time.Minute)
				synctest.Wait()
				there, _ := tree.Exists(pods.PodCgroup{UID: uid})
				if left := leftOf(r, string(uid)); len(left) != 1 || !there || tree.times(uid) != 1 || tree.times("uid-web") != 0 {
					t.Errorf("left %v, its cgroup there %v, reduced %v", left, there, tree.reduced)
				}
				r.reads(map[string]string{"remove pod folder uid-left": tc.dir, "remove cgroup uid-left": tc.cpu})
				for _, why := range append(tc.mounted, errText(tc.err)) {
					if got := r.forbidden()["remove pod folder uid-left"]; !strings.Contains(got, why) {
						t.Errorf("the plan does not say %q: %q", why, got)
					}
				}
				disks.set(nil)
				r.within(6*time.Minute, "both to go", func() error {
					there, _ := tree.Exists(pods.PodCgroup{UID: uid})
					if left := leftOf(r, string(uid)); len(left) > 0 || there {
						return fmt.Errorf("left %v, its cgroup there %v", left, there)
					}
					return nil
				})
			})
		})
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestDeletedRefusedPodFinishesOnce: cleanup edge cases 6 to 9, step 13: housekeeping finishes a
// refused pod that is being deleted, once, and never starts it; nor does it start one that has
// ended according to its source. Housekeeping does not finish a pending pod that arrives with a
// deletion behind its worker's back.
func TestDeletedRefusedPodFinishesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, vetoed := fake.New(fake.Options{}), map[string]int{}
		r := newRig(t, rt, t.TempDir(), roomFor("1"), func(c *podwright.Config) {
			c.Cleanup.Veto = func(a cleanup.Action) error { vetoed[a.Step.String()+" "+string(a.PodUID)]++; return nil }
		}).start()
		over := newPod("over")
		over.Status.Phase = v1.PodSucceeded
		refused := asking(newPod("refused"), "5")
		r.set(refused, over, newPod("web"))
		r.rejected("uid-refused", "OutOfcpu")
		r.phase("uid-web", v1.PodRunning, time.Minute)
		<-time.After(3 * time.Minute)
		refused = refused.DeepCopy()
		refused.DeletionTimestamp, refused.DeletionGracePeriodSeconds = ptr.To(metav1.Now()), ptr.To[int64](0)
		pending := newPod("pending")
		pending.DeletionTimestamp, pending.DeletionGracePeriodSeconds = ptr.To(metav1.Now()), ptr.To[int64](0)
		r.set(refused, over, newPod("web"), pending)
		<-time.After(5 * time.Minute)
		synctest.Wait()
		if n := len(rt.Calls(fake.Match{Method: fake.RunPodSandbox, Func: func(c fake.Call) bool { return c.PodUID != "uid-web" }})); n != 0 {
			t.Errorf("%d sandboxes of pods that are not to run", n)
		}
		for _, step := range []string{"restart uid-refused", "restart uid-over", "finish uid-pending", "finish uid-over"} {
			if vetoed[step] != 0 {
				t.Errorf("housekeeping did %q %d times", step, vetoed[step])
			}
		}
		if n := vetoed["finish uid-refused"]; n > 1 {
			t.Errorf("it was finished %d times", n)
		}
		r.set(newPod("web"))
		r.within(time.Minute, "those that were deleted to be gone", func() error {
			for _, uid := range []types.UID{"uid-refused", "uid-over", "uid-pending"} {
				if r.pod(uid) != nil {
					return fmt.Errorf("%s is still known", uid)
				}
			}
			return nil
		})
	})
}
