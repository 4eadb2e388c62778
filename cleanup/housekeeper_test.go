package cleanup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/podwright/podwright/internal/instrument/instrumenttest"
	"github.com/podwright/podwright/runtime"
)

// node is a small world behind all interfaces of the package. Tests change its fields between
// passes; its methods record what is done to it.
type node struct {
	*Housekeeper
	mu  sync.Mutex // of log, and of what removals change
	log []string

	desired map[types.UID]*v1.Pod
	mirrors []*v1.Pod
	workers map[types.UID]Worker
	// finished are the workers that SyncKnownPods forgets, or reports to be restarted.
	finished map[types.UID]bool
	runs     map[types.UID]bool
	runsErr  error
	phases   map[types.UID]v1.PodPhase
	content  map[types.UID]bool
	podDirs  map[types.UID]bool
	logDirs  map[types.UID]bool
	notReady bool
	gateErr  error
	synced   bool

	// during is called while the running pods are listed, outside the fence.
	during func()
	// removing is called by every removal.
	removing func()
	// listErr fails the lists of folders.
	listErr error
	// planErr fails the plan of the collector.
	planErr error
	// removeErr fails removals, by "what uid".
	removeErr map[string]error
	fenced    bool
	rests     time.Duration // as the last pass said
}

func newNode(t *testing.T, edit func(*Options)) *node {
	t.Helper()
	n := &node{
		desired: map[types.UID]*v1.Pod{}, workers: map[types.UID]Worker{}, finished: map[types.UID]bool{},
		runs: map[types.UID]bool{}, phases: map[types.UID]v1.PodPhase{}, content: map[types.UID]bool{},
		podDirs: map[types.UID]bool{}, logDirs: map[types.UID]bool{}, removeErr: map[string]error{},
	}
	options := Options{
		SourcesReady: func() bool { return !n.notReady },
		Gate:         func() error { return n.gateErr },
		Statuses:     n, Content: n, Collector: collecting{n},
	}
	if edit != nil {
		edit(&options)
	}
	var err error
	if n.Housekeeper, err = New(n, n, n, options); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *node) note(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log = append(n.log, fmt.Sprintf(format, args...))
}

func (n *node) Pods() []*v1.Pod {
	pods := []*v1.Pod{}
	for _, p := range n.desired {
		pods = append(pods, p)
	}
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return pods
}
func (n *node) Mirrors() []*v1.Pod { return n.mirrors }
func (n *node) Get(uid types.UID) (*v1.Pod, bool) {
	p, ok := n.desired[uid]
	return p, ok
}

func (n *node) SyncKnownPods(desired []*v1.Pod) map[types.UID]Worker {
	if !n.fenced {
		n.note("SyncKnownPods outside the fence")
	}
	n.synced = true
	out := map[types.UID]Worker{}
	for uid, w := range n.workers {
		w.Orphan = n.desired[uid] == nil
		if n.finished[uid] && !w.Orphan {
			w.State, w.Restart = WorkerTerminated, true
		} else if n.finished[uid] {
			delete(n.workers, uid)
			delete(n.finished, uid)
			continue
		}
		out[uid] = w
	}
	return out
}
func (n *node) Known() map[types.UID]Worker               { return maps.Clone(n.workers) }
func (n *node) Knows(uid types.UID) bool                  { _, ok := n.workers[uid]; return ok }
func (n *node) ContentShouldBeRemoved(uid types.UID) bool { return n.synced && !n.Knows(uid) }

func (n *node) act(what string, uid types.UID, w Worker) {
	if !n.fenced {
		n.note("%s outside the fence", what)
	}
	n.note("%s %s", what, uid)
	n.workers[uid] = w
	delete(n.finished, uid)
}
func (n *node) Restart(p *v1.Pod) { n.act("restart", p.UID, Worker{HasConfig: true}) }
func (n *node) Kill(p *v1.Pod) {
	n.act("finish", p.UID, Worker{State: WorkerTerminating, HasConfig: true})
}

func (n *node) KillRuntimePod(p *runtime.Pod) {
	n.act("kill", p.UID, Worker{State: WorkerTerminating, Orphan: true})
}

func (n *node) ListRunning(context.Context) ([]*runtime.Pod, error) {
	if n.fenced {
		n.note("runtime call inside the fence")
	}
	if n.runsErr != nil {
		return nil, n.runsErr
	}
	pods := []*runtime.Pod{}
	for uid := range n.runs {
		pods = append(pods, runs(string(uid)))
	}
	if n.during != nil {
		n.during()
	}
	return pods, nil
}

func (n *node) Phase(uid types.UID) (v1.PodPhase, bool) { p, ok := n.phases[uid]; return p, ok }
func (n *node) RemoveOrphanedStatuses(known map[types.UID]struct{}) {
	for _, m := range n.mirrors { // a mirror pod stands for the static pod of its name
		if _, ok := known[m.UID]; ok {
			known[types.UID(m.Name)] = struct{}{}
		}
	}
	for uid := range n.phases {
		if _, ok := known[uid]; !ok {
			delete(n.phases, uid)
			n.note("drop status %s", uid)
		}
	}
}

func (n *node) remove(what string, uid types.UID, from map[types.UID]bool) error {
	if n.fenced {
		n.note("removal inside the fence")
	}
	n.note("remove %s %s", what, uid)
	if n.removing != nil {
		n.removing()
	}
	if err := n.removeErr[what+" "+string(uid)]; err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(from, uid)
	return nil
}

func (n *node) RemovePod(_ context.Context, uid types.UID) error {
	return n.remove("content", uid, n.content)
}

func (n *node) RemoveLogs(_ context.Context, uid types.UID) error {
	return n.remove("logs", uid, n.logDirs)
}

func (n *node) RemovePodDir(_ context.Context, uid types.UID) error {
	return n.remove("folder", uid, n.podDirs)
}

func (n *node) PodDirs() ([]types.UID, error) { return keys(n.podDirs), n.listErr }
func (n *node) LogDirs() ([]types.UID, error) { return keys(n.logDirs), n.listErr }

func keys(m map[types.UID]bool) []types.UID {
	out := []types.UID{}
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// collecting is the node as a collector.
type collecting struct{ *node }

func (n collecting) Plan(_ context.Context, goes func(types.UID) bool) ([]Action, error) {
	var out []Action
	for _, uid := range keys(n.content) {
		a := Action{Step: StepContainers, PodUID: uid, Object: Object{Namespace: "ns", Name: string(uid), Container: "main"}, Reason: "nothing of its pod is needed", Size: 7}
		if !goes(uid) {
			a.Forbidden = Denial{Rule: "ND3", Why: "the newest of its name tells how it ended"}
		}
		out = append(out, a)
	}
	return out, n.planErr
}

func (n collecting) Collect(ctx context.Context, goes func(types.UID) bool, permits func(Action) bool, done func(Action, error)) error {
	actions, _ := n.Plan(ctx, goes)
	for _, a := range actions {
		if !a.Allowed() || !permits(a) {
			continue
		}
		n.note("collect %s", a.PodUID)
		if n.removing != nil {
			n.removing()
		}
		err := n.removeErr["collect "+string(a.PodUID)]
		if err == nil {
			delete(n.content, a.PodUID)
		}
		done(a, err)
	}
	return nil
}

// pass makes a pass and compares what it did.
func (n *node) pass(t *testing.T, what string, want ...string) {
	t.Helper()
	if err := n.try(); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	n.did(t, what, want...)
}

func (n *node) try() error {
	var err error
	n.rests, err = n.Housekeep(context.Background(), func(critical func()) {
		n.fenced = true
		defer func() { n.fenced = false }()
		critical()
	})
	return err
}

func (n *node) did(t *testing.T, what string, want ...string) {
	t.Helper()
	n.mu.Lock() // a removal may go on
	defer n.mu.Unlock()
	if diff := cmp.Diff(append([]string{}, want...), append([]string{}, n.log...)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
	n.log = nil
}

func (n *node) want(pods ...*v1.Pod) {
	n.desired = map[types.UID]*v1.Pod{}
	for _, p := range pods {
		n.desired[p.UID] = p
	}
}

// TestFixedUIDRestart is edge 5: removed and added again under one UID while the
// old life ended; R2, HI4, HI11. The mirror pod that stayed keeps no status.
func TestFixedUIDRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nil)
		n.want(newPod("a", fromFile))
		n.mirrors = []*v1.Pod{newPod("a", func(p *v1.Pod) { p.UID = "mirror" })}
		n.workers["a"] = Worker{HasConfig: true, Static: true}
		n.runs["a"] = true
		n.phases["a"] = v1.PodRunning
		n.pass(t, "it runs")
		// Its old life has ended, its containers are still listed.
		n.phases["a"] = v1.PodFailed
		n.finished["a"] = true
		n.pass(t, "restarted, not killed; the status of the old life goes first", "drop status a", "restart a")
		if w := n.lastWorkers["a"]; w != (Worker{HasConfig: true, Static: true}) {
			t.Errorf("step 12 puts it into the working map as %+v", w)
		}
		if len(n.Housekeeper.content) != 0 {
			t.Error("what a restarted pod left is taken for leftovers")
		}
		n.pass(t, "once")
		if got := workingPods(n.lastWorkers); got[series{"sync", "desired", ""}] != 1 || len(got) != 1 {
			t.Errorf("working pods: %v", got)
		}
	})
}

// TestGonePod is the prompt end of an unwanted pod: one pass after it finished
// nothing is left (section 3, CG4, SB2).
func TestGonePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nil)
		n.want(newPod("a"), newPod("b"))
		n.workers["a"], n.workers["b"] = Worker{HasConfig: true}, Worker{HasConfig: true}
		n.runs["a"], n.content["a"], n.podDirs["a"], n.logDirs["a"] = true, true, true, true
		n.podDirs["b"] = true
		n.phases["a"] = v1.PodRunning
		n.pass(t, "both run")
		n.want(newPod("b"))
		n.workers["a"] = Worker{State: WorkerTerminating, HasConfig: true}
		n.pass(t, "it terminates", "drop status a")
		delete(n.runs, "a")
		n.workers["a"] = Worker{State: WorkerTerminated, HasConfig: true}
		n.pass(t, "it has ended, its worker has not finished")
		n.finished["a"] = true
		n.pass(t, "forgotten, and everything it left goes in the same pass", "remove content a", "remove folder a")
		n.pass(t, "converged (ID2)")
	})
}

// TestHint: a pod that lived and died between two passes is found through Finished.
func TestHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nil)
		n.pass(t, "nothing")
		n.content["a"] = true
		n.pass(t, "no worker knows it")
		n.Finished("a")
		n.pass(t, "with the hint", "remove content a")
		n.want(newPod("b"))
		n.workers["b"] = Worker{HasConfig: true}
		n.Finished("b")
		n.pass(t, "a hint about a desired pod does nothing")
	})
}

// TestAgentWasDown is edge 4: a pod deleted while no agent ran.
func TestAgentWasDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nil)
		n.runs["a"], n.content["a"], n.podDirs["a"], n.logDirs["a"] = true, true, true, true
		n.content["dead"], n.podDirs["dead"], n.logDirs["dead"] = true, true, true
		n.pass(t, "the running one is killed, what is left of the dead one goes", "kill a", "remove logs dead", "remove folder dead", "collect dead")
		n.pass(t, "edge 14: not killed again")
		delete(n.runs, "a")
		n.finished["a"] = true
		n.pass(t, "then it goes too", "remove content a", "remove folder a")
		n.runs["b"], n.content["b"] = true, true
		n.pass(t, "another orphan", "kill b")
		delete(n.runs, "b")
		n.finished["b"] = true
		n.pass(t, "killed and finished between two passes", "remove content b")
	})
}

// TestSourcesNotReady is SG1, edge 1: not even SyncKnownPods is called.
func TestSourcesNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nil)
		n.notReady = true
		n.runs["a"], n.podDirs["a"], n.content["a"] = true, true, true
		n.pass(t, "nothing")
		if n.synced {
			t.Error("SyncKnownPods was called")
		}
		n.notReady = false
		n.during = func() { n.notReady = true }
		n.podDirs["b"], n.content["b"] = true, true
		n.pass(t, "the guard is asked again before acting (DR1)")
	})
}

// TestListFails is edge 2, HK4: nothing is judged by a failed list; the rest is still done:
// statuses, probes and gauges.
func TestListFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, probes := &instrumenttest.Meter{}, &keeper{}
		n := newNode(t, func(o *Options) { o.Meter, o.CleanupProbes = m, probes.CleanupPods })
		n.workers["ending"] = Worker{State: WorkerTerminating, HasConfig: true}
		n.want(newPod("new"))
		n.runs["orphan"], n.podDirs["gone"], n.content["gone"] = true, true, true
		n.phases["gone"] = v1.PodFailed
		n.runsErr = errors.New("runtime is down")
		if err := n.try(); !errors.Is(err, n.runsErr) {
			t.Errorf("error %v", err)
		}
		n.did(t, "statuses are still dropped", "drop status gone")
		if !n.synced {
			t.Error("SyncKnownPods was not called")
		}
		if want := []types.UID{"ending"}; !slices.Equal(probes.pods, want) {
			t.Errorf("probes are kept of %v, want %v", probes.pods, want)
		}
		if m.Sums()["kubelet_desired_pods{static=}"] != 1 || m.Sums()["kubelet_active_pods{static=}"] != 1 ||
			m.Sums()["kubelet_working_pods{config=orphan,lifecycle=terminating,static=}"] != 1 {
			t.Errorf("gauges %v", m.Sums())
		}
		n.runsErr = nil
		n.pass(t, "the list is back", "restart new", "kill orphan", "remove folder gone", "collect gone")
	})
}

// TestTheLoopIsFaster: what changed between the list and the execution is seen
// (B5, DR1).
func TestTheLoopIsFaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nil)
		n.want(newPod("lost"), newPod("gone"))
		n.podDirs["new"], n.runs["new"] = true, true
		n.podDirs["back"] = true
		n.during = func() {
			n.desired["new"] = newPod("new") // added, and its worker has started it
			n.workers["new"] = Worker{HasConfig: true}
			n.phases["new"] = v1.PodPending
			n.workers["lost"] = Worker{HasConfig: true} // created by the loop meanwhile
			delete(n.desired, "gone")                   // no longer wanted
			n.desired["back"] = newPod("back")
		}
		n.pass(t, "nothing is done twice, nothing of the new pods is touched")
	})
}

func TestRefusedAndDeleted(t *testing.T) { // edge 6, step 13
	n := newNode(t, nil)
	n.want(newPod("a", deleted))
	n.phases["a"] = v1.PodFailed
	n.pass(t, "finished once", "finish a")
	n.pass(t, "not every pass")
}

func TestGateHoldsRestarts(t *testing.T) { // B2
	n := newNode(t, nil)
	n.want(newPod("a"))
	n.runs["orphan"] = true
	n.gateErr = errors.New("network is down")
	n.pass(t, "kills go on", "kill orphan")
	if got := show(n.LastPlan()); !slices.Contains(got, "restart a not B2") {
		t.Errorf("the plan does not say why: %v", got)
	}
	n.gateErr = nil
	n.pass(t, "afterwards", "restart a")
}

// TestWithheld: B2, DR1: a pod that was not handed to a worker yet is not
// restarted, nor does its status go; it may have become so while the plan was made.
func TestWithheld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		withheld, asked := map[types.UID]bool{"waits": true}, 0
		n := newNode(t, func(o *Options) {
			o.Withheld = func(uid types.UID) bool {
				if uid == "late" {
					asked++
					return asked == 2 // not while the plan is made
				}
				return withheld[uid]
			}
		})
		n.want(newPod("waits"), newPod("lost"))
		n.phases["waits"] = v1.PodRunning
		n.pass(t, "only the other", "restart lost")
		withheld["waits"] = false
		n.want(newPod("waits"), newPod("lost"), newPod("late"))
		n.pass(t, "lost after all", "drop status waits", "restart waits")
		n.pass(t, "later", "restart late")
	})
}

// TestFailedRemoval is OD10 and HI12: one failure delays no other object, and is
// tried again with back-off.
func TestFailedRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nil)
		for _, uid := range []types.UID{"a", "bad", "c"} {
			n.podDirs[uid] = true
		}
		busy := errors.New("device is busy")
		n.removeErr["folder bad"] = busy
		if err := n.try(); !errors.Is(err, busy) || !strings.Contains(err.Error(), "remove pod folder of bad") {
			t.Errorf("error %v", err)
		}
		n.did(t, "the others go", "remove folder a", "remove folder bad", "remove folder c")
		n.pass(t, "not at once again")
		if got := n.LastPlan().Actions[0].Forbidden; got.Rule != "OD10" || !strings.Contains(got.Why, "device is busy") {
			t.Errorf("the plan says %q", got)
		}
		tries := []time.Duration{}
		begin := time.Now()
		for range 1500 {
			<-time.After(time.Second)
			_ = n.try()
			if len(n.log) > 0 {
				tries = append(tries, time.Since(begin))
				n.log = nil
			}
		}
		want := []time.Duration{5 * time.Second, 15 * time.Second, 35 * time.Second, 75 * time.Second, 155 * time.Second, 315 * time.Second, 615 * time.Second, 915 * time.Second, 1215 * time.Second}
		if diff := cmp.Diff(want, tries); diff != "" {
			t.Errorf("tries (-want +got):\n%s", diff)
		}
		delete(n.removeErr, "folder bad")
		<-time.After(5 * time.Minute)
		n.pass(t, "at last", "remove folder bad")
		if len(n.failures) != 0 {
			t.Errorf("failures are remembered: %v", n.failures)
		}
		n.pass(t, "converged")
	})
}

// TestForgottenFailures: a failure is forgotten when the object was removed by
// something else, a log folder's only once nothing waits for it.
func TestForgottenFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nil)
		n.podDirs["a"], n.logDirs["a"] = true, true
		n.removeErr["folder a"], n.removeErr["logs a"] = errors.New("busy"), errors.New("busy")
		if err := n.try(); err == nil {
			t.Error("no error")
		}
		n.did(t, "both fail", "remove logs a", "remove folder a")
		delete(n.podDirs, "a")
		delete(n.logDirs, "a")
		<-time.After(time.Second)
		n.pass(t, "they are gone")
		if len(n.failures) != 1 {
			t.Errorf("failures: %v; log folders are not looked at in every pass", n.failures)
		}
		<-time.After(retryMax + time.Minute)
		n.pass(t, "later")
		if len(n.failures) != 0 {
			t.Errorf("failures: %v", n.failures)
		}
	})
}

// TestFailedContent: what could not be removed is tried again, unless the pod came
// back.
func TestFailedContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nil)
		n.pass(t, "first")
		for _, uid := range []types.UID{"a", "b"} {
			n.content[uid] = true
			n.removeErr["content "+string(uid)] = errors.New("busy")
			n.Finished(uid)
		}
		if err := n.try(); err == nil {
			t.Error("no error")
		}
		n.did(t, "both fail", "remove content a", "remove content b")
		n.want(newPod("b"))
		n.workers["b"] = Worker{HasConfig: true}
		n.pass(t, "one is back")
		if !n.Housekeeper.content.Equal(sets.New[types.UID]("a")) {
			t.Errorf("left over: %v", n.Housekeeper.content)
		}
		clear(n.removeErr)
		<-time.After(5 * time.Second)
		n.pass(t, "the other is removed", "remove content a")
	})
}

func TestFoldersCannotBeListed(t *testing.T) { // HK1, edge 15
	n := newNode(t, nil)
	n.listErr = errors.New("no such folder")
	n.runs["a"] = true
	err := n.try()
	if !errors.Is(err, n.listErr) || !strings.Contains(err.Error(), "list pod folders") || !strings.Contains(err.Error(), "list log folders") {
		t.Errorf("error %v", err)
	}
	n.did(t, "the pass goes on", "kill a")
}

// TestRemovalBudget: a slow runtime does not make a pass long (OD10).
func TestRemovalBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nil)
		n.pass(t, "first")
		n.removing = func() { <-time.After(45 * time.Millisecond) }
		for _, uid := range []types.UID{"a", "b", "c", "d", "e", "f"} {
			n.content[uid] = true
			n.Finished(uid)
		}
		begin := time.Now()
		n.pass(t, "until 200 ms are over", "remove content a", "remove content b", "remove content c", "remove content d", "remove content e")
		if took := time.Since(begin); took != 5*45*time.Millisecond {
			t.Errorf("the pass took %v", took)
		}
		n.Wait()
		n.removing = func() { <-time.After(time.Second) }
		n.pass(t, "at least one", "remove content f")
		n.Wait()
		n.pass(t, "all are gone")
	})
}

// TestFolderWaitsForContent (OD10, HI12): where the removal of a pod's content is delayed or in progress,
// the removal of its folder, which would fail, is not tried; so it follows without a back-off.
func TestFolderWaitsForContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nil)
		n.pass(t, "first")
		n.removing = func() { // of content
			if strings.HasPrefix(n.log[len(n.log)-1], "remove content") {
				<-time.After(45 * time.Millisecond)
			}
		}
		for _, uid := range []types.UID{"a", "b", "c", "d", "e", "f"} {
			n.content[uid], n.podDirs[uid] = true, true
			n.Finished(uid)
		}
		n.pass(t, "until 200 ms are over", "remove content a", "remove content b", "remove content c", "remove content d", "remove content e",
			"remove folder a", "remove folder b", "remove folder c", "remove folder d", "remove folder e")
		n.pass(t, "the rest", "remove content f", "remove folder f")
		n.removing = func() { <-time.After(2 * time.Second) }
		n.content["h"], n.podDirs["h"] = true, true
		n.Finished("h")
		n.pass(t, "the content of h takes long", "remove content h")
		n.pass(t, "still")
		n.Wait()
		n.removing = nil
		n.pass(t, "at once", "remove folder h")
	})
}

// TestCollectBudget: garbage collection on a slow runtime does not prolong a pass either: what is
// left is collected in the passes that it asks for (OD10, HI12, section 1).
func TestCollectBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var again atomic.Int32
		n := newNode(t, func(o *Options) { o.Again = func() { again.Add(1) } })
		n.removing = func() { <-time.After(100 * time.Millisecond) }
		for _, uid := range []types.UID{"a", "b", "c", "d", "e"} {
			n.content[uid] = true
		}
		n.pass(t, "until 200 ms are over", "collect a", "collect b", "collect c")
		if last := n.outcomes[len(n.outcomes)-1]; last.Result != skipped || last.Why.Rule != "OD10" || again.Load() != 1 {
			t.Errorf("%+v, asked %d times for another pass", last, again.Load())
		}
		n.removing = func() { <-time.After(time.Minute) }
		began := time.Now()
		n.pass(t, "at least one", "collect d")
		n.podDirs["gone"] = true
		n.pass(t, "a removal that hangs delays no other", "remove folder gone")
		if took := time.Since(began); took > 500*time.Millisecond || again.Load() != 1 {
			t.Errorf("IN1: the passes took %v, asked %d times for another pass", took, again.Load())
		}
		<-time.After(time.Minute)
		if again.Load() != 3 { // besides for the folder
			t.Errorf("when it had ended, asked %d times for another pass", again.Load())
		}
		n.removing = nil
		n.pass(t, "the rest", "collect e")
		n.pass(t, "all is collected, the next run is in a minute")
	})
}

// TestManyLeftovers is edge 38, DR6, OD10: a mountain goes in steps, 10 folders per
// second, without an error and without asking for more passes.
func TestManyLeftovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		again := 0
		n := newNode(t, func(o *Options) { o.Again = func() { again++ } })
		const all = 5000
		for i := range all {
			n.podDirs[types.UID(fmt.Sprint("old", i))] = true
		}
		begin := time.Now()
		for passes := 1; len(n.podDirs) > 0; passes++ {
			if err := n.try(); err != nil {
				t.Fatal(err)
			}
			if got, want := len(n.podDirs), all-passes*2*defaultDirectoryRate; got != want {
				t.Fatalf("%d folders are left after pass %d, want %d", got, passes, want)
			}
			<-time.After(2 * time.Second)
		}
		if took := time.Since(begin); took != all/defaultDirectoryRate*time.Second || again > 0 {
			t.Errorf("all gone after %v, asked %d times for another pass", took, again)
		}
	})
}

// TestManyFailures is OD10, HI12, edge 38: however many folders cannot be removed, and
// whatever they are called, each of the others gets its turn, and so does the one that
// has waited longest. The log has one line per try, no more than may be tried.
func TestManyFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := 0
		const rate, bad, good = 1, 500, 10 // as 5000 at the default rate
		n := newNode(t, func(o *Options) {
			o.Rates = Rates{Directories: rate}
			o.Logger = funcr.New(func(_, _ string) { lines++ }, funcr.Options{})
		})
		for i := range bad {
			uid := types.UID(fmt.Sprintf("bad%03d", i))
			n.podDirs[uid], n.removeErr["folder "+string(uid)] = true, errors.New("busy")
		}
		for i := range good {
			n.podDirs[types.UID(fmt.Sprintf("good%02d", i))] = true
		}
		const span = 20 * time.Minute // a round over all of them takes 8 min 20 s
		begin, tried := time.Now(), map[string]int{}
		for time.Since(begin) < span {
			_ = n.try()
			for _, line := range n.log {
				tried[line]++
			}
			n.log = nil
			<-time.After(2 * time.Second)
		}
		if len(n.podDirs) != bad {
			t.Errorf("%d folders that could go are still there", len(n.podDirs)-bad)
		}
		for i := range bad {
			if times := tried[fmt.Sprintf("remove folder bad%03d", i)]; times < 2 || times > 4 {
				t.Fatalf("folder %d was tried %d times", i, times)
			}
		}
		if most := int(span.Seconds()) * rate; lines > most {
			t.Errorf("%d lines in the log of %v, want at most %d", lines, span, most)
		}
	})
}

// TestManyFailedContainers is DR6, HI12: containers that cannot be removed do not use up
// what may be removed per second: each is tried once per run of garbage collection, the
// others go, and then a run is over.
func TestManyFailedContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, func(o *Options) { o.Rates = Rates{Containers: 5} })
		const bad, good = 25, 15
		for i := range bad {
			uid := types.UID(fmt.Sprintf("bad%02d", i))
			n.content[uid], n.removeErr["collect "+string(uid)] = true, errors.New("busy")
		}
		for i := range good {
			n.content[types.UID(fmt.Sprintf("good%02d", i))] = true
		}
		begin, tries := time.Now(), map[string]int{}
		for run := 1; run <= 3; run++ {
			for time.Since(begin) < time.Duration(run)*defaultCollectPeriod {
				_ = n.try()
				for _, line := range n.log {
					tries[line]++
				}
				n.log = nil
				<-time.After(2 * time.Second)
			}
			if len(n.content) != bad {
				t.Fatalf("run %d: %d containers that could go are still there", run, len(n.content)-bad)
			}
			for i := range bad {
				if got := tries[fmt.Sprintf("collect bad%02d", i)]; got != run {
					t.Errorf("run %d: container %d was tried %d times", run, i, got)
				}
			}
		}
	})
}

// TestFailedBesideVeto: HI12, DR5: a host that vetoes one removal forever does not keep
// another one, which failed once, from being tried again.
func TestFailedBesideVeto(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, func(o *Options) {
			o.Veto = func(a Action) error {
				if a.PodUID == "kept" {
					return errors.New("mine")
				}
				return nil
			}
		})
		n.content["kept"], n.content["late"] = true, true
		n.removeErr["collect late"] = errors.New("busy")
		_ = n.try()
		<-time.After(10 * time.Second)
		delete(n.removeErr, "collect late")
		for range 40 {
			_ = n.try()
			<-time.After(2 * time.Second)
		}
		if n.content["late"] || !n.content["kept"] {
			t.Errorf("left: %v", n.content)
		}
	})
}

func TestCollectPeriod(t *testing.T) { // section 1
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nil)
		n.pass(t, "first")
		n.content["a"], n.logDirs["a"] = true, true
		<-time.After(59 * time.Second)
		n.pass(t, "not yet")
		<-time.After(time.Second)
		n.pass(t, "after a minute", "remove logs a", "collect a")
	})
}

func TestPassesAreSerial(t *testing.T) { // HK2
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nil)
		inside, release := 0, make(chan struct{})
		n.during = func() {
			inside++
			<-release
			inside--
		}
		done := make(chan error, 2)
		for range 2 {
			go func() { _, err := n.Housekeep(t.Context(), nil); done <- err }()
		}
		synctest.Wait()
		if inside != 1 {
			t.Errorf("%d passes at once", inside)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := n.Housekeep(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a third pass: %v", err)
		}
		close(release)
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestBareHousekeeper: without the optional parts the pods are still looked after.
func TestBareHousekeeper(t *testing.T) {
	n := newNode(t, func(o *Options) { *o = Options{} })
	n.want(newPod("a"))
	n.runs["b"], n.podDirs["c"], n.phases["d"] = true, true, v1.PodFailed
	n.pass(t, "restart and kill only", "restart a", "kill b")
	n.Finished("b")
	n.finished["b"] = true
	delete(n.runs, "b")
	n.pass(t, "it ends")
	if len(n.Housekeeper.finished) != 0 || len(n.Housekeeper.content) != 0 {
		t.Error("notes pile up unread")
	}
	if _, err := n.Housekeep(context.Background(), nil); err != nil || !slices.Contains(n.log, "SyncKnownPods outside the fence") {
		t.Errorf("a pass without a fence: %v, %v", err, n.log)
	}
}

func TestNewListsAllProblems(t *testing.T) {
	_, err := New(nil, nil, nil, Options{CollectPeriod: -1, Meter: &instrumenttest.Meter{Refuse: []string{"kubelet_desired_pods"}}})
	for _, want := range []string{"required", "negative", "metrics"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
	n := newNode(t, nil)
	for _, f := range []func() (*Housekeeper, error){
		func() (*Housekeeper, error) { return New(nil, n, n, Options{}) },
		func() (*Housekeeper, error) { return New(n, nil, n, Options{}) },
		func() (*Housekeeper, error) { return New(n, n, nil, Options{}) },
	} {
		if _, err := f(); err == nil {
			t.Error("something required is missing without an error")
		}
	}
}

// TestWorkingPods is section 9: the series, and the FIX for a desired UID without a
// full pod; edge 40 through the full list of series.
func TestWorkingPods(t *testing.T) {
	got := workingPods(map[types.UID]Worker{
		"1": {State: WorkerSync, HasConfig: true},
		"2": {State: WorkerSync, HasConfig: true, Static: true},
		"3": {State: WorkerTerminating, HasConfig: true, Orphan: true},
		"4": {State: WorkerTerminated, HasConfig: true, Orphan: true, Static: true},
		"5": {State: WorkerTerminating, Orphan: true},
		"6": {State: WorkerTerminating},
	})
	want := map[series]int64{
		{"sync", "desired", ""}: 1, {"sync", "desired", "true"}: 1, {"terminating", "orphan", ""}: 1,
		{"terminated", "orphan", "true"}: 1, {"terminating", "runtime_only", "unknown"}: 2,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	seen := map[series]bool{}
	for _, s := range workingSeries() {
		seen[s] = true
	}
	if len(seen) != 15 {
		t.Errorf("%d series, want 15", len(seen))
	}
	for s := range want {
		if !seen[s] {
			t.Errorf("%v is never written back to zero", s)
		}
	}
}
