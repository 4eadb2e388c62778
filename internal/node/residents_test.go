package node

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/rule"
	"github.com/podwright/podwright/syncloop"
)

// TestResidents: which pods the node has to do with, and how.
func TestResidents(t *testing.T) {
	stoppingDesired := newPod("stopping-desired")
	r := &Residents{
		Desired: desire(newPod("runs"), newPod("waits"), newPod("ended"), newPod("terminating"), newPod("kept"), newPod("stopping-desired")),
		Statuses: podStatuses{
			"runs": inPhase(v1.PodRunning), "ended": inPhase(v1.PodSucceeded), "terminating": inPhase(v1.PodRunning),
			"kept": inPhase(v1.PodPending), "leaves": inPhase(v1.PodRunning), "stopping-desired": inPhase(v1.PodRunning),
		},
		Lives: &lives{
			known:       uids("runs", "ended", "terminating", "leaves", "stopping-desired"),
			terminating: uids("terminating", "leaves", "stopping-desired"), finished: uids("ended"),
		},
		Stopping: func() map[types.UID]*v1.Pod {
			return map[types.UID]*v1.Pod{"leaves": newPod("leaves"), "stopping-desired": stoppingDesired}
		},
		Ending: func() []*v1.Pod { return []*v1.Pod{newPod("remembered"), newPod("leaves"), newPod("ended")} },
		Heard:  func() bool { return true },
	}
	for _, test := range []struct {
		name string
		got  []*v1.Pod
		want []types.UID
	}{
		{"active: has not ended", r.Active(), []types.UID{"kept", "leaves", "runs", "stopping-desired", "terminating", "waits"}},
		{"evictable: has a status and a worker, and is not stopping", r.Evictable(), []types.UID{"runs"}},
		{"unfinished: has a worker and holds something", r.Unfinished(), []types.UID{"leaves", "runs", "stopping-desired", "terminating"}},
		{"leaving: stops and holds something, also before it has a worker", r.Leaving(), []types.UID{"leaves", "remembered", "stopping-desired", "terminating"}},
	} {
		if got := uidsOf(test.got); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
	if got := r.All()["stopping-desired"]; got != stoppingDesired {
		t.Error("a pod that is being stopped is not as its worker has it")
	}
	if r.Get("stopping-desired") == stoppingDesired || r.Get("leaves") == nil || r.Get("unknown") != nil {
		t.Error("Get: a desired pod as it is desired, then as it is being stopped, then nil")
	}
	r.Allocated = func(pod *v1.Pod) *v1.Pod { return requesting(pod, "1") }
	if got := r.Evictable()[0]; len(got.Spec.Containers) != 1 || got.Status.Phase != v1.PodRunning {
		t.Errorf("evictable is not what was allocated, with its status: %+v", got)
	}
}

// TestResidentsAreComplete once every source has named its pods and each pod that runs has its worker.
func TestResidentsAreComplete(t *testing.T) {
	heard, known := true, &lives{known: uids("runs")}
	r := &Residents{
		Desired: desire(newPod("runs"), newPod("refused"), newPod("new")), Lives: known, Heard: func() bool { return heard },
		Statuses: podStatuses{"runs": inPhase(v1.PodRunning), "refused": inPhase(v1.PodFailed)},
	}
	if !r.Complete() {
		t.Error("it waits for a pod that does not run")
	}
	if heard = false; r.Complete() {
		t.Error("it does not wait for the sources")
	}
	if heard, known.known = true, nil; r.Complete() {
		t.Error("it does not wait for the worker of a pod that runs")
	}
}

// yielding is the error of a pod that waits for something other than room.
type yielding struct{ error }

func (yielding) Yields() bool { return true }

// TestOpenVerdictsWithoutClaimAreNotActive: IN6. A pod without a verdict counts only while others leave it room.
func TestOpenVerdictsWithoutClaimAreNotActive(t *testing.T) {
	r, _ := residents(newPod("judged"), newPod("new"), newPod("waits"), newPod("overdue"), newPod("yields"))
	r.Open = func(uid types.UID) (syncloop.OpenVerdict, bool) {
		open := map[types.UID]syncloop.OpenVerdict{
			"new": {}, "waits": {Err: errMakingRoom}, "overdue": {Err: errMakingRoom, Overdue: true}, "yields": {Err: yielding{errMakingRoom}},
		}
		o, waits := open[uid]
		return o, waits
	}
	if got, want := uidsOf(r.Active()), []types.UID{"judged", "new", "waits"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestAhead: PS4, IN6. The pods that wait and came before one, unless they have waited too long; all of them came before a pod
// that does not wait.
func TestAhead(t *testing.T) {
	r, _ := residents(newPod("first"), newPod("second"), newPod("third"), newPod("overdue"))
	r.Queue = func() []syncloop.OpenVerdict {
		return []syncloop.OpenVerdict{{UID: "first", Err: errMakingRoom}, {UID: "dropped"}, {UID: "overdue", Err: errMakingRoom, Overdue: true}, {UID: "second"}, {UID: "third"}}
	}
	for uid, want := range map[types.UID][]types.UID{"first": nil, "third": {"first", "second"}, "judged": {"first", "second", "third"}} {
		var got []types.UID
		for pod, err := range r.Ahead(uid) {
			if got = append(got, pod.UID); (err == nil) == (pod.UID == "first") {
				t.Errorf("%s waits for %v", pod.UID, err)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("ahead of %s: %v, want %v", uid, got, want)
		}
	}
}

// TestDeparting: of the pods that hold something, those that no source wants any more, whether they
// are being stopped yet or not, and those that are being stopped.
func TestDeparting(t *testing.T) {
	r, l := residents(newPod("runs"), newPod("stops"))
	l.terminating = uids("stops")
	r.Holding = func() []*v1.Pod {
		return []*v1.Pod{newPod("runs"), newPod("stops"), newPod("dropped")}
	}
	if got, want := uidsOf(r.Departing()), []types.UID{"dropped", "stops"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestOrphaned: no source wants the pod or may want it (ND2), no worker knows it, and every source has
// been heard.
func TestOrphaned(t *testing.T) {
	r, l := residents(newPod("desired"))
	l.known["known"] = true
	for uid, want := range map[types.UID]bool{"desired": false, "known": false, "gone": true} {
		if got := r.Orphaned(uid); got != want {
			t.Errorf("%s: %v, want %v", uid, got, want)
		}
	}
	r.MaybeWanted = maybeWanted
	if r.Orphaned("gone") {
		t.Error("orphaned although a source may want it")
	}
	r, _ = residents()
	r.MaybeWanted = func(uid types.UID) rule.Denial { // from now on its source names it
		r.Desired = desire(newPod(uid))
		return rule.Denial{}
	}
	if r.Orphaned("gone") {
		t.Error("orphaned although a source named it meanwhile")
	}
	r, _ = residents()
	r.Heard = func() bool { return false }
	if r.Orphaned("gone") {
		t.Error("orphaned before every source was heard")
	}
}
