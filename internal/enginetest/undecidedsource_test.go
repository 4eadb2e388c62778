package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/source"
)

// undecided is a source that cannot name all its pods until the test says that it can.
type undecided struct {
	*source.Channel
	mu  sync.Mutex
	why error
}

func (u *undecided) Undecided() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.why
}

func (u *undecided) decide() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.why = nil
}

// TestUndecidedSourceKeepsRunningPods: a running or finished pod that an engine finds at its start
// stays as it is while a source may want it but cannot say so yet: a manifest that becomes
// unreadable never kills the pod that it defined (spec/syncloop.md F3). Pods that the engine knows
// end as usual.
func TestUndecidedSourceKeepsRunningPods(t *testing.T) {
	for _, wanted := range []bool{true, false} {
		t.Run(fmt.Sprintf("wanted in the end: %v", wanted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { unreadableAtStart(t, wanted) })
		})
	}
}

func unreadableAtStart(t *testing.T, wanted bool) {
	rt := byContainer(map[string]fake.Script{"job": {Exit: &fake.Exit{After: time.Second}}})
	root := t.TempDir()
	job := newPod("job", "job")
	job.Spec.RestartPolicy = v1.RestartPolicyNever
	old := newRig(t, rt, root).start()
	old.set(newPod("hidden"), newPod("known"), job)
	old.phase("uid-hidden", v1.PodRunning, 10*time.Second)
	old.phase("uid-known", v1.PodRunning, 10*time.Second)
	old.phase("uid-job", v1.PodSucceeded, 10*time.Second)
	old.stop()

	hidden := &undecided{why: errors.New("a manifest is unreadable")}
	r := newRig(t, rt, root, func(c *podwright.Config) {
		hidden.Channel = c.Sources[0].(*source.Channel)
		c.Sources = []syncloop.Source{hidden}
	}).start()
	r.set(newPod("known"))
	r.phase("uid-known", v1.PodRunning, 10*time.Second)
	<-time.After(3 * time.Minute) // several runs of garbage collection
	r.set()
	sandboxes := func(want ...types.UID) func() error {
		return func() error {
			list, err := rt.ListPodSandbox(t.Context(), nil)
			left := map[types.UID]bool{}
			for _, s := range list {
				left[types.UID(s.Metadata.Uid)] = true
			}
			for _, uid := range want {
				if !left[uid] {
					return fmt.Errorf("%s is gone, left: %v", uid, left)
				}
			}
			if len(left) != len(want) {
				return fmt.Errorf("left: %v, %v", left, err)
			}
			return nil
		}
	}
	r.within(30*time.Second, "the pod it knows to go", sandboxes("uid-hidden", "uid-job"))
	if rt.Running("uid-hidden", "main") != 1 {
		t.Fatal("a pod that its source could not name was stopped")
	}
	if err := r.engine.Healthy(); err != nil {
		t.Errorf("health: %v", err)
	}

	hidden.decide()
	if !wanted {
		r.set()
		r.empty(2 * time.Minute)
		return
	}
	r.set(newPod("hidden"), job)
	hiddenPod, jobPod := types.UID("uid-hidden"), types.UID("uid-job")
	r.phase(hiddenPod, v1.PodRunning, 10*time.Second)
	r.phase(jobPod, v1.PodSucceeded, 10*time.Second)
	<-time.After(3 * time.Minute)
	for _, uid := range []types.UID{hiddenPod, jobPod} {
		if n := len(rt.Calls(fake.Match{Method: fake.StartContainer, PodUID: uid})); n != 1 {
			t.Errorf("%s was started %d times", uid, n)
		}
	}
	if rt.Running(hiddenPod, "main") != 1 {
		t.Error("the pod does not run any more")
	}
}

// TestUndecidedSourceKeepsAllocations: spec/runtime.md 21.4, cleanup.md ND2. What a running pod was allocated stays on record
// while its source may want it and cannot name it: then a resize that was refused is not carried out.
func TestUndecidedSourceKeepsAllocations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root := byContainer(nil), t.TempDir()
		old := newRig(t, rt, root, allocatable("4")).start()
		big := newPod("hidden")
		old.set(sized(big, "1", "64Mi"), newPod("known"))
		old.phase(big.UID, v1.PodRunning, 10*time.Second)
		old.phase("uid-known", v1.PodRunning, 10*time.Second)
		old.set(sized(big, "8", "64Mi"), newPod("known"))
		old.pending(big.UID, "Infeasible")
		old.stop()

		hidden := &undecided{why: errors.New("a manifest is unreadable")}
		r := newRig(t, rt, root, allocatable("4"), func(c *podwright.Config) {
			hidden.Channel = c.Sources[0].(*source.Channel)
			c.Sources = []syncloop.Source{hidden}
		}).start()
		r.set(newPod("known"))
		r.phase("uid-known", v1.PodRunning, 10*time.Second)
		r.set() // its end has resizes looked at
		<-time.After(time.Minute)
		hidden.decide()
		r.set(sized(big, "8", "64Mi"))
		r.pending(big.UID, "Infeasible")
		r.shows(big.UID, "1", "64Mi")
		if n := len(rt.Calls(fake.Match{Method: fake.UpdateContainerResources})); n != 0 {
			t.Errorf("the container was resized %d times", n)
		}
	})
}

// fullDisk is a node whose disk is always too full.
type fullDisk struct{}

func (fullDisk) Node(context.Context) (map[eviction.Signal]eviction.Observation, error) {
	return map[eviction.Signal]eviction.Observation{eviction.NodeFsAvailable: {Available: 1, Capacity: 1000}}, nil
}

func (fullDisk) Pod(context.Context, *v1.Pod, eviction.Signal) (eviction.Usage, error) {
	return eviction.Usage{}, nil
}

// TestFullDiskKeepsPodsOfAnUndecidedSource: eviction obeys the rule of housekeeping before it
// removes dead containers (cleanup.md ND2). A job that has ended, and that the source could not
// name, does not run a second time.
func TestFullDiskKeepsPodsOfAnUndecidedSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(map[string]fake.Script{"job": {Exit: &fake.Exit{After: time.Second}}})
		root := t.TempDir()
		job := newPod("job", "job")
		job.Spec.RestartPolicy = v1.RestartPolicyNever
		old := newRig(t, rt, root).start()
		old.set(job)
		old.phase(job.UID, v1.PodSucceeded, 10*time.Second)
		old.stop()

		hidden := &undecided{why: errors.New("a manifest is unreadable")}
		r := newRig(t, rt, root, func(c *podwright.Config) {
			hidden.Channel = c.Sources[0].(*source.Channel)
			c.Sources = []syncloop.Source{hidden}
			c.Eviction = &podwright.Eviction{Stats: fullDisk{}}
		}).start()
		r.set()
		<-time.After(3 * time.Minute)
		if left := r.records(job); len(left) != 1 {
			t.Errorf("containers left: %v, want the job's", left)
		}
		hidden.decide()
		r.set()
		r.empty(2 * time.Minute)
	})
}

// TestUndecidedSourceHoldsUpNoStop: a pod whose manifest was removed is stopped to the end, although
// the agent dies during the stop and the next one cannot read another manifest (cleanup.md DR8).
// Without this the pod would run on, unseen, until the other manifest is mended.
func TestUndecidedSourceHoldsUpNoStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(map[string]fake.Script{"slow": {IgnoreTERM: true}})
		root := t.TempDir()
		removed := newPod("removed", "slow")
		old := newRig(t, rt, root).start()
		old.set(removed, newPod("hidden"))
		old.phase(removed.UID, v1.PodRunning, 10*time.Second)
		old.phase("uid-hidden", v1.PodRunning, 10*time.Second)
		old.set(newPod("hidden"))
		<-time.After(3 * time.Second) // of its 30 s of grace
		if rt.Running(removed.UID, "slow") != 1 {
			t.Fatal("the pod has stopped before the agent died")
		}
		old.stop()

		unread := &undecided{why: errors.New("a manifest is unreadable")}
		r := newRig(t, rt, root, func(c *podwright.Config) {
			unread.Channel = c.Sources[0].(*source.Channel)
			c.Sources = []syncloop.Source{unread}
		}).start()
		r.set()
		r.within(2*time.Minute, "the removed pod to be gone", func() error {
			list, err := rt.ListPodSandbox(t.Context(), nil)
			for _, s := range list {
				if s.Metadata.Uid == string(removed.UID) {
					return fmt.Errorf("its sandbox is left, %d of its containers run", rt.Running(removed.UID, "slow"))
				}
			}
			return err
		})
		if rt.Running("uid-hidden", "main") != 1 {
			t.Error("a pod that its source could not name was stopped")
		}
	})
}

// TestUndecidedSourceKeepsItsNames: F3, N6. A pod of another source does not get the name of a running pod that its source
// cannot name at a start, until the source has decided about it. A pod of the same source has replaced it.
func TestUndecidedSourceKeepsItsNames(t *testing.T) {
	for _, end := range []string{"named", "dropped", "replaced"} {
		t.Run(end, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { unreadableName(t, end) }) })
	}
}

func unreadableName(t *testing.T, end string) {
	rt, root := fake.New(fake.Options{}), t.TempDir()
	web, other := newPod("web"), newPod("web")
	other.UID = "uid-other"
	old := newTenant(t, rt, root, admission.SourcePolicy{})
	old.set(web)
	old.asks(other) // which the first source keeps from the name
	old.phase(web.UID, v1.PodRunning, 10*time.Second)
	old.stop()

	hidden := &undecided{why: errors.New("a manifest is unreadable")}
	r := newTenant(t, rt, root, admission.SourcePolicy{}, func(c *podwright.Config) {
		hidden.Channel = c.Sources[0].(*source.Channel)
		c.Sources = []syncloop.Source{hidden}
	})
	if end == "replaced" {
		r.set(other)
		r.asks()
		r.phase(other.UID, v1.PodRunning, time.Minute)
		return
	}
	r.set()
	r.asks(other)
	<-time.After(3 * time.Minute)
	if stops := rt.Calls(fake.Match{Method: fake.StopContainer, PodUID: web.UID}); len(stops) != 0 || rt.Running(web.UID, "main") != 1 {
		t.Fatalf("a pod that its source could not name was stopped: %v", stops)
	}
	if n := starts(rt, other.UID); n != 0 {
		t.Errorf("the other pod was started %d times", n)
	}
	if err := fmt.Sprint(r.engine.Problems()); !strings.Contains(err, "uid-other") || !strings.Contains(err, "uid-web") {
		t.Errorf("problems: %v", err)
	}
	hidden.decide()
	if end == "dropped" {
		r.set()
		r.phase(other.UID, v1.PodRunning, time.Minute)
		return
	}
	r.set(web)
	r.phase(web.UID, v1.PodRunning, time.Minute)
	<-time.After(3 * time.Minute)
	if n := starts(rt, web.UID); n != 1 || rt.Running(web.UID, "main") != 1 {
		t.Errorf("the pod was started %d times", n)
	}
}
