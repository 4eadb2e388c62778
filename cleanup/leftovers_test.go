package cleanup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/timing"
)

// outback is the rest of a node: cgroups, user IDs, mirror pods and delays.
type outback struct {
	*node
	cgroups     map[types.UID]bool
	volumes     map[types.UID]bool
	ranges      map[types.UID]bool
	mirrors     []types.NamespacedName
	terminating map[string]bool
	prunes      int
	cgroupsErr  error
	volumesErr  error
	reduceErr   error
	hang        bool // HasVolumes does not answer for bad pods
}

func newOutback(t *testing.T, edit func(*Options)) *outback {
	o := &outback{
		cgroups: map[types.UID]bool{}, volumes: map[types.UID]bool{}, ranges: map[types.UID]bool{}, terminating: map[string]bool{},
	}
	o.node = newNode(t, func(options *Options) {
		options.Cgroups, options.UserRanges, options.Mirrors, options.PruneBackOffs = o, o, o, o.PruneBackOffs
		if edit != nil {
			edit(options)
		}
	})
	return o
}

func (o *outback) List() ([]types.UID, error) {
	if o.synced && o.cgroupsErr == nil {
		o.synced = false // the next thing must be SyncKnownPods
	}
	return keys(o.cgroups), o.cgroupsErr
}

func (o *outback) HasVolumes(ctx context.Context, uid types.UID) (bool, error) {
	if o.hang && strings.HasPrefix(string(uid), "bad") {
		<-ctx.Done()
		return true, ctx.Err()
	}
	return o.volumes[uid], o.volumesErr
}

func (o *outback) ReduceCPU(uid types.UID) error {
	o.note("reduce %s", uid)
	return o.reduceErr
}

func (o *outback) Destroy(_ context.Context, uid types.UID) error {
	o.note("destroy %s", uid)
	if o.removing != nil {
		o.removing()
	}
	delete(o.cgroups, uid)
	return o.removeErr["cgroup "+string(uid)]
}

func (o *outback) UserRanges() []types.UID { return keys(o.ranges) }
func (o *outback) ReleaseUserRange(uid types.UID) error {
	return o.remove("user IDs", uid, o.ranges)
}
func (o *outback) OrphanedMirrors() []types.NamespacedName { return o.mirrors }
func (o *outback) StaticTerminating(name types.NamespacedName) bool {
	return o.terminating[name.String()]
}

func (o *outback) DeleteMirror(name types.NamespacedName) {
	o.note("delete mirror %s", name)
	o.mirrors = slices.DeleteFunc(o.mirrors, func(n types.NamespacedName) bool { return n == name })
}
func (o *outback) PruneBackOffs() { o.prunes++ }

// TestStep1Aborts: a pass without the list of cgroups does nothing at all (HK1), and
// the list is read before the desired pods, so that a pod added meanwhile is none's
// orphan (step 1).
func TestStep1Aborts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutback(t, nil)
		o.cgroupsErr = errors.New("no cgroups here")
		o.runs["a"], o.podDirs["b"], o.phases["c"] = true, true, ""
		if err := o.try(); !errors.Is(err, o.cgroupsErr) || !strings.Contains(err.Error(), "list cgroups of pods") {
			t.Errorf("error %v", err)
		}
		o.did(t, "nothing is done")
		if o.synced {
			t.Error("SyncKnownPods was called")
		}
		o.cgroupsErr = nil
		o.pass(t, "all of it", "drop status c", "kill a", "remove folder b")
		if !o.synced {
			t.Error("the cgroups were listed after the desired pods were read")
		}
		if o.prunes != 1 {
			t.Errorf("step 17 was done %d times, want 1", o.prunes)
		}
	})
}

// TestCgroups is step 16, ND6, edge 10: without volumes the cgroup of a gone pod
// goes; with them it stays with the smallest weight, set once, until they are gone.
func TestCgroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutback(t, nil)
		o.want(newPod("live"))
		o.workers["live"] = Worker{HasConfig: true}
		o.workers["ending"] = Worker{State: WorkerTerminating, HasConfig: true}
		o.cgroups = set("live", "ending", "gone", "full", "runs")
		o.runs["runs"], o.volumes["full"], o.podDirs["full"] = true, true, true
		o.removeErr["folder full"] = errors.New("something is mounted there")
		if err := o.try(); err == nil {
			t.Error("no error of the folder")
		}
		o.did(t, "the gone one's goes", "kill runs", "remove folder full", "destroy gone", "reduce full")
		o.pass(t, "the other's stays and is not set again")
		if !slices.Contains(show(o.LastPlan()), "remove cgroup full not ND6") {
			t.Errorf("the plan does not say why: %v", show(o.LastPlan()))
		}
		delete(o.volumes, "full")
		o.pass(t, "unmounted: it goes too", "destroy full")
	})
}

// TestCgroupVolumesUnknown is edge 11: what cannot be found out is taken for volumes
// that are there; a failed ReduceCPU is tried again.
func TestCgroupVolumesUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutback(t, nil)
		o.cgroups["a"] = true
		o.volumesErr, o.reduceErr = errors.New("the mount table cannot be read"), errors.New("read-only")
		for range 2 {
			if err := o.try(); !errors.Is(err, o.reduceErr) {
				t.Errorf("error %v", err)
			}
			o.did(t, "kept", "reduce a")
		}
		if why := o.LastPlan().Actions[0].Forbidden; why.Rule != "ND6" || !strings.Contains(why.Why, "mount table") {
			t.Errorf("the plan says %q", why)
		}
		o.volumesErr, o.reduceErr = nil, nil
		o.pass(t, "known again", "destroy a")
	})
}

// TestCgroupNeedsList is ND11: what runs is not known, so no cgroup is touched.
func TestCgroupNeedsList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutback(t, nil)
		o.cgroups["a"], o.ranges["a"], o.runsErr = true, true, errors.New("down")
		_ = o.try()
		o.did(t, "nothing")
		o.runsErr = nil
		o.during = func() { o.workers["a"] = Worker{HasConfig: true} }
		o.pass(t, "a worker appeared meanwhile (DR1)")
		for _, outcome := range o.outcomes {
			if outcome.Result != skipped || outcome.Why.Rule != "ND2" {
				t.Errorf("outcome %+v", outcome)
			}
		}
		if len(o.outcomes) != 2 {
			t.Errorf("outcomes %+v", o.outcomes)
		}
	})
}

// TestUserRanges is step 8: ranges of pods that are neither desired nor running are
// given back, with or without a folder, whatever becomes of the folder.
func TestUserRanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutback(t, nil)
		o.want(newPod("live"))
		o.workers["live"] = Worker{HasConfig: true}
		o.ranges = set("live", "runs", "gone", "stuck")
		o.runs["runs"], o.podDirs["stuck"] = true, true
		o.removeErr["folder stuck"] = errors.New("left-over data")
		_ = o.try()
		o.did(t, "the gone ones'", "kill runs", "remove folder stuck", "remove user IDs gone", "remove user IDs stuck")
	})
}

// TestMirrors is step 10, ND7, edges 18 and 19, HK4: orphaned mirror pods are deleted
// by name, without a list of what runs, unless the static pod is being terminated.
func TestMirrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutback(t, nil)
		o.mirrors = []types.NamespacedName{{Namespace: "ns", Name: "ending"}, {Namespace: "ns", Name: "renamed"}}
		o.terminating["ns/ending"] = true
		o.runsErr = errors.New("down")
		_ = o.try()
		o.did(t, "the renamed one's", "delete mirror ns/renamed")
		if got := show(o.LastPlan()); !slices.Contains(got, "delete mirror pod  not ND7") {
			t.Errorf("the plan does not say why the other stays: %v", got)
		}
		o.runsErr = nil
		clear(o.terminating)
		o.during = func() { o.terminating["ns/ending"] = true }
		o.pass(t, "terminating again since the plan (DR1)")
		clear(o.terminating)
		o.during = nil
		o.pass(t, "done and still absent", "delete mirror ns/ending")
		o.pass(t, "HI5: none is left")
		o.mirrors = []types.NamespacedName{{Namespace: "ns", Name: "late"}}
		o.during = func() { o.notReady = true }
		o.pass(t, "SG1: a source is missing all of a sudden")
	})
}

// TestMirrorMeanwhile is ND7, DR1, edge 18: a static pod that begins to be terminated
// after the plan was made keeps its mirror.
func TestMirrorMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutback(t, nil)
		o.mirrors = []types.NamespacedName{{Namespace: "ns", Name: "m"}}
		fences := 0
		_, err := o.Housekeep(t.Context(), func(critical func()) {
			critical()
			fences++
			o.terminating["ns/m"] = fences == 2 // the plan is made before
		})
		last := o.outcomes
		if err != nil || len(o.mirrors) != 1 || len(last) != 1 || last[0].Result != skipped || last[0].Why.Rule != "ND7" {
			t.Errorf("%v, left %v, outcomes %+v", err, o.mirrors, last)
		}
	})
}

// TestConverged is HI5 and ID2: after two passes nothing of gone pods is left, and the
// plan of what remains is empty.
func TestConverged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutback(t, func(options *Options) { options.CollectPeriod = time.Second })
		o.want(newPod("live"))
		o.workers["live"] = Worker{HasConfig: true}
		for i := range 10 {
			uid := types.UID(fmt.Sprint("gone", i))
			o.cgroups[uid], o.ranges[uid], o.podDirs[uid], o.logDirs[uid], o.content[uid], o.phases[uid] = true, true, true, true, true, ""
			o.mirrors = append(o.mirrors, types.NamespacedName{Namespace: "ns", Name: string(uid)})
			o.Finished(uid)
		}
		for _, m := range []map[types.UID]bool{o.cgroups, o.ranges, o.podDirs, o.logDirs} {
			m["live"] = true
		}
		for range 2 {
			if err := o.try(); err != nil {
				t.Fatal(err)
			}
			<-time.After(2 * time.Second)
		}
		o.log = nil
		o.pass(t, "converged")
		if got := show(o.LastPlan()); len(got) > 0 {
			t.Errorf("planned: %v", got)
		}
		if left := len(o.cgroups) + len(o.ranges) + len(o.podDirs) + len(o.logDirs) + len(o.content) + len(o.mirrors) + len(o.phases); left != 4 {
			t.Errorf("%d things are left, want the four of the pod that lives", left)
		}
	})
}

// TestVeto is DR5: what the host vetoes is not done, is logged, and is tried again.
func TestVeto(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		no := errors.New("not during the backup")
		var asked []string
		o := newOutback(t, func(options *Options) {
			options.Veto = func(a Action) error {
				asked = append(asked, a.Kind+" "+a.Object.String())
				return no
			}
		})
		o.want(newPod("lost"))
		o.runs["orphan"], o.content["gone"], o.podDirs["bare"], o.cgroups["bare"], o.ranges["bare"] = true, true, true, true, true
		o.mirrors = []types.NamespacedName{{Namespace: "ns", Name: "m"}}
		o.Finished("gone")
		o.pass(t, "nothing of it")
		want := []string{
			"pod ns/lost", "pod ns/orphan", "mirror pod ns/m", "pod gone", "pod folder bare", "user IDs bare", "cgroup bare",
			"container ns/gone/main",
		}
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
		for _, outcome := range o.outcomes {
			if outcome.Result != skipped || outcome.Why.String() != "DR5: vetoed: not during the backup" {
				t.Errorf("outcome %+v", outcome)
			}
		}
		o.options.Veto = nil
		o.pass(t, "tried again", "restart lost", "kill orphan", "delete mirror ns/m", "remove content gone",
			"remove folder bare", "remove user IDs bare", "destroy bare")
		for _, outcome := range o.outcomes {
			if outcome.Result != done {
				t.Errorf("outcome %+v", outcome)
			}
		}
	})
}

// TestOneGuard is SG3, ND2: whatever the step, each action that destroys something asks
// the guard again, and a denial is logged with its rule.
func TestOneGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		o := newOutback(t, func(options *Options) {
			options.Logger = funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 1})
		})
		o.runs["orphan"], o.podDirs["p"], o.content["c"], o.cgroups["g"], o.ranges["r"], o.logDirs["l"] = true, true, true, true, true, true
		o.Finished("c")
		o.during = func() { o.want(newPod("orphan"), newPod("p"), newPod("c"), newPod("g"), newPod("r"), newPod("l")) }
		o.pass(t, "all came back after the plan was made")
		if len(lines) != 6 || len(o.outcomes) != 6 {
			t.Errorf("%d outcomes, log %q", len(o.outcomes), lines)
		}
		for _, line := range lines {
			if !strings.Contains(line, "Housekeeping held back") || !strings.Contains(line, `"rule"="`) {
				t.Errorf("log %s", line)
			}
		}
	})
}

// TestRates is DR6: 50 containers and 10 folders a second by default; what exceeds that is skipped
// and removed later. A negative rate means no limit.
func TestRates(t *testing.T) {
	for _, c := range []struct {
		name              string
		rates             Rates
		containers, faces int // that go in the first pass and in one a second later
	}{
		{"default", Rates{}, 100, 50},
		{"one a second", Rates{Containers: 1, Directories: 1}, 2, 1},
		{"no bound", Rates{Containers: -1, Directories: -1}, 200, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, func(o *Options) { o.Rates = c.rates })
				for i := range 200 {
					n.content[types.UID(fmt.Sprintf("c%03d", i))] = true
				}
				for _, want := range []int{c.containers, c.faces} {
					before := len(n.content)
					if err := n.try(); err != nil {
						t.Fatal(err)
					}
					if gone := before - len(n.content); gone != want {
						t.Errorf("%d containers went, want %d", gone, want)
					}
					<-time.After(time.Second)
				}
			})
		})
	}
	if _, err := New(&node{}, &node{}, &node{}, Options{Rates: Rates{Containers: 2e6}}); err == nil || !strings.Contains(err.Error(), "negative") {
		t.Errorf("error %v", err)
	}
}

// TestSilentVolumesDelayNoOther (IN1, HI12): volumes that do not answer keep the cgroups of their
// own pods, and delay only a few passes.
func TestSilentVolumesDelayNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutback(t, nil)
		o.pass(t, "first")
		o.hang = true
		const crowd = 500
		for i := range crowd {
			o.cgroups[types.UID(fmt.Sprintf("bad-%02d", i))] = true
			o.cgroups[types.UID(fmt.Sprintf("good-%02d", i))] = true
		}
		took := func() time.Duration {
			begin := time.Now()
			if err := o.try(); err != nil {
				t.Error(err)
			}
			return time.Since(begin)
		}
		if d := took(); d > 7*timing.Patience || len(o.cgroups) != crowd {
			t.Errorf("the pass took %v, %d cgroups are left", d, len(o.cgroups))
		}
		o.cgroups["good-late"] = true
		if d := took(); d != 0 || len(o.cgroups) != crowd {
			t.Errorf("the next pass took %v, %d cgroups are left", d, len(o.cgroups))
		}
		o.hang = false
		<-time.After(retryMax)
		took()
		if len(o.cgroups) != 0 {
			t.Errorf("%d cgroups are left", len(o.cgroups))
		}
	})
}
