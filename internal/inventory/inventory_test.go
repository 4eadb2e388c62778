package inventory

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/internal/rule"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// The first state of each kind.
var (
	setup       = stateWhere(func(s podworkers.State) bool { return s.String() == "setup" })
	terminating = stateWhere(func(s podworkers.State) bool { return s.Terminating() && !s.Terminated() })
	terminated  = stateWhere(podworkers.State.Terminated)
)

func stateWhere(is func(podworkers.State) bool) (s podworkers.State) {
	for !is(s) {
		s++
	}
	return s
}

// reader counts lists.
type reader struct {
	lists   int
	running []*runtime.Pod
	status  map[types.UID]*runtime.PodStatus
	version uint64
	health  pleg.Health
	err     error
}

func (r *reader) ListRunning(context.Context) ([]*runtime.Pod, error) {
	r.lists++
	return r.running, r.err
}

func (r *reader) Get(uid types.UID) (*runtime.PodStatus, error) {
	if status := r.status[uid]; status != nil {
		return status, nil
	}
	return nil, pleg.ErrNotRead
}
func (r *reader) ChangedSince(uint64) pleg.Changes { return pleg.Changes{Version: r.version} }
func (r *reader) Health() pleg.Health              { return r.health }

// workers have the states a test sets, and note updates.
type workers struct {
	states  map[types.UID]podworkers.State
	updates []podworkers.UpdateOptions
}

func (w *workers) Forget(uid types.UID) bool {
	_, known := w.states[uid]
	delete(w.states, uid)
	return known
}

func (w *workers) SyncKnownPods([]*v1.Pod) map[types.UID]podworkers.PodSync {
	out := map[types.UID]podworkers.PodSync{}
	for uid, s := range w.states {
		out[uid] = podworkers.PodSync{State: s, HasConfig: true}
	}
	return out
}

func (w *workers) Snapshot() (out []podworkers.Explanation) {
	for uid, s := range w.states {
		out = append(out, podworkers.Explanation{UID: uid, State: s})
	}
	return out
}

func (w *workers) IsPodKnown(uid types.UID) bool {
	_, known := w.states[uid]
	return known
}

func (w *workers) ShouldPodContentBeRemoved(uid types.UID) bool { return w.states[uid].Terminated() }

func (w *workers) UpdatePod(u podworkers.UpdateOptions) (o podworkers.Outcome) {
	w.updates = append(w.updates, u)
	return o
}

// memory turns each first update into two, and knows a pod for each orphan.
type memory struct{}

func (memory) Complete(u podworkers.UpdateOptions) []podworkers.UpdateOptions {
	again := u
	again.Type = podworkers.Sync
	return []podworkers.UpdateOptions{u, again}
}

func (memory) KillOrphan(pod *runtime.Pod) podworkers.UpdateOptions {
	return podworkers.UpdateOptions{Type: podworkers.Kill, RunningPod: pod}
}

// world is an inventory whose parts a test changes between passes.
type world struct {
	*Inventory
	reader  *reader
	workers *workers
	clock   *testclock.FakeClock
	plan    cleanup.Plan
	desired []*v1.Pod

	unjudged   map[types.UID]bool
	readmitted []types.UID
}

func newWorld() *world {
	w := &world{
		reader: &reader{}, workers: &workers{states: map[types.UID]podworkers.State{"web": setup}},
		clock: testclock.NewFakeClock(time.Unix(1_000_000, 0)), desired: []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{UID: "web"}}},
	}
	w.Inventory = &Inventory{
		Pods: Pods{
			Workers: w.workers, Memory: memory{}, Clock: w.clock,
			Judged: func(pod *v1.Pod) bool { return !w.unjudged[pod.UID] }, Readmit: func(uid types.UID) { w.readmitted = append(w.readmitted, uid) },
		}, Reader: w.reader,
		LastPlan: func() cleanup.Plan { return w.plan },
	}
	return w
}

// pass is what a housekeeping pass asks.
func (w *world) pass(t *testing.T) {
	t.Helper()
	w.SyncKnownPods(w.desired)
	if _, err := w.ListRunning(t.Context()); err != nil && w.reader.err == nil {
		t.Fatal(err)
	}
}

// Passes share a list until something differs from what the pass that read it saw.
func TestListIsReadAgainOnlyWhenSomethingDiffers(t *testing.T) {
	for name, test := range map[string]struct {
		change func(w *world)
		again  bool
	}{
		"nothing":               {func(*world) {}, false},
		"another desired pod":   {func(w *world) { w.desired = append(w.desired, &v1.Pod{}); w.clock.Step(sharedFor) }, true},
		"a changed desired pod": {func(w *world) { w.desired = []*v1.Pod{w.desired[0].DeepCopy()}; w.clock.Step(sharedFor) }, true},
		"a worker's state":      {func(w *world) { w.workers.states["web"] = terminated; w.clock.Step(sharedFor) }, true},
		"all of it, just now": {func(w *world) {
			w.desired = nil
			w.workers.states["web"] = terminated
			w.reader.version++
			w.clock.Step(sharedFor - 1)
		}, false},
		"the cache":          {func(w *world) { w.reader.version++; w.clock.Step(sharedFor) }, true},
		"a minute":           {func(w *world) { w.clock.Step(maxAge) }, true},
		"less than a minute": {func(w *world) { w.clock.Step(maxAge - time.Second) }, false},
		"a clock set back":   {func(w *world) { w.clock.Step(-time.Second) }, true},
		"failing relists":    {func(w *world) { w.reader.health.Err = errors.New("broken") }, true},
		"failing lists":      {func(w *world) { w.reader.health.ListErr = errors.New("broken") }, true},
		"a pod that hangs":   {func(w *world) { w.reader.health.Hung = make([]pleg.HungPod, 1) }, true},
		"a pass that acted":  {func(w *world) { w.plan.Actions = make([]cleanup.Action, 1); w.clock.Step(sharedFor) }, true},
		"what a pod keeps": {func(w *world) {
			w.plan.Actions = []cleanup.Action{{Forbidden: cleanup.Denial{Rule: rule.InUse}}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.pass(t)
			test.change(w)
			w.pass(t)
			if again := w.reader.lists == 2; again != test.again {
				t.Errorf("read %d times", w.reader.lists)
			}
		})
	}
}

// HK5: a list that passes share while pods come and go lacks those that have stopped since, and no other.
func TestSharedListLacksWhatHasStopped(t *testing.T) {
	w := newWorld()
	runs := &runtime.PodStatus{Containers: []*runtime.ContainerStatus{{State: runtime.Running}}}
	w.reader.running = []*runtime.Pod{{UID: "runs"}, {UID: "stopped"}, {UID: "unread"}}
	w.reader.status = map[types.UID]*runtime.PodStatus{"runs": runs, "stopped": {}}
	for range 3 {
		w.pass(t)
		w.reader.version++
	}
	w.SyncKnownPods(w.desired)
	list, err := w.ListRunning(t.Context())
	if err != nil || w.reader.lists != 1 || len(list) != 2 || list[0].UID != "runs" || list[1].UID != "unread" {
		t.Errorf("%v, %v, read %d times", list, err, w.reader.lists)
	}
	if len(w.reader.running) != 3 {
		t.Error("the list itself was changed")
	}
}

// A list that failed is read again by the next pass.
func TestFailedListIsReadAgain(t *testing.T) {
	w := newWorld()
	w.pass(t)
	w.clock.Step(maxAge)
	w.reader.err = errors.New("broken")
	w.pass(t)
	w.reader.err = nil
	w.pass(t)
	if w.reader.lists != 3 {
		t.Errorf("read %d times", w.reader.lists)
	}
}

// Housekeeping sees each worker's state, and dry runs see the same without an effect.
func TestStatesOfWorkers(t *testing.T) {
	w := newWorld()
	w.workers.states = map[types.UID]podworkers.State{
		"sync": setup, "terminating": terminating, "terminated": terminated,
	}
	want := map[types.UID]cleanup.WorkerState{
		"sync": cleanup.WorkerSync, "terminating": cleanup.WorkerTerminating, "terminated": cleanup.WorkerTerminated,
	}
	for name, got := range map[string]map[types.UID]cleanup.Worker{"pass": w.SyncKnownPods(nil), "dry run": w.Known()} {
		for uid, state := range want {
			if got[uid].State != state || !got[uid].HasConfig || len(got) != len(want) {
				t.Errorf("%s: %s is %+v", name, uid, got[uid])
			}
		}
	}
	if !w.Knows("sync") || w.Knows("other") || w.ContentShouldBeRemoved("sync") || !w.ContentShouldBeRemoved("terminated") {
		t.Error("the workers are not asked")
	}
}

// What is remembered of a pod completes each update.
func TestUpdatesAreCompletedFromMemory(t *testing.T) {
	w := newWorld()
	w.Restart(w.desired[0])
	w.Kill(w.desired[0])
	w.KillRuntimePod(&runtime.Pod{UID: "orphan"})
	want := []podworkers.UpdateType{podworkers.Restart, podworkers.Sync, podworkers.Kill, podworkers.Sync, podworkers.Kill}
	if len(w.workers.updates) != len(want) {
		t.Fatalf("updates %+v", w.workers.updates)
	}
	for i, u := range w.workers.updates {
		if u.Type != want[i] {
			t.Errorf("update %d is %v, want %v", i, u.Type, want[i])
		}
	}
	if last := w.workers.updates[4]; last.RunningPod == nil || last.RunningPod.UID != "orphan" {
		t.Errorf("orphan: %+v", last)
	}
}

// A pod's next life is judged before it begins (AD5); the worker of the earlier one makes way for it.
func TestNextLifeIsJudgedFirst(t *testing.T) {
	w := newWorld()
	w.unjudged = map[types.UID]bool{"web": true}
	w.Restart(w.desired[0])
	if len(w.workers.updates) != 0 || w.Knows("web") || !slices.Equal(w.readmitted, []types.UID{"web"}) {
		t.Errorf("updates %v, has a worker %v, readmitted %v", w.workers.updates, w.Knows("web"), w.readmitted)
	}
}
