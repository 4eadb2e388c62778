package node

import (
	"errors"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// newOccupants returns occupants of pods that differ in what happened to them.
func newOccupants() *Occupants {
	granted := newPod("granted")
	workers := &lives{
		known: uids("runs", "ended", "stops", "stops-ended", "gone"), terminating: uids("stops", "stops-ended"), terminated: uids("gone"),
	}
	in := func(set map[types.UID]bool) func(types.UID) bool { return func(uid types.UID) bool { return set[uid] } }
	return &Occupants{
		Residents: &Residents{
			Desired: desire(newPod("runs"), newPod("ended"), newPod("stops"), newPod("stops-ended"), newPod("gone"), newPod("withheld"), newPod("held"), newPod("refused"), newPod("stops-later")),
			Statuses: podStatuses{
				"runs": inPhase(v1.PodRunning), "ended": inPhase(v1.PodSucceeded), "stops": inPhase(v1.PodRunning),
				"stops-ended": inPhase(v1.PodFailed), "stops-later": inPhase(v1.PodFailed), "refused": inPhase(v1.PodFailed),
			},
			Lives: workers,
		},
		Refused: in(uids("refused")), Began: in(uids("runs", "ended", "stops-later")), Terminated: in(workers.terminated), Withheld: in(uids("withheld", "refused")), Held: in(uids("held")),
		Verdict: func(pod *v1.Pod) (bool, error) {
			uid := pod.UID
			if uid == "unreadable" {
				return false, errors.New("broken")
			}
			return uid == "runs", nil
		},
		Granted: func(pod *v1.Pod) *v1.Pod {
			out := pod.DeepCopy()
			out.Spec = granted.Spec
			return out
		},
	}
}

// A pod keeps its place until its containers have stopped, whatever its phase says (AD4).
func TestPodKeepsItsPlaceWhileItStops(t *testing.T) {
	o := newOccupants()
	for uid, want := range map[types.UID]struct{ active, place, ending, kept bool }{
		"runs":        {active: true, place: true},
		"ended":       {ending: true},
		"stops":       {active: true, place: true, ending: true},
		"stops-ended": {active: true, place: true, ending: true},
		"stops-later": {active: true, place: true, ending: true}, // it has no worker since the agent's restart
		"gone":        {},
		"withheld":    {active: true, kept: true},
		"held":        {active: true, place: true, kept: true},
		"refused":     {kept: true},
	} {
		pod, _ := o.Residents.Desired.Get(uid)
		_, active := o.Active(pod)
		_, place := o.Place(pod)
		got := struct{ active, place, ending, kept bool }{active, place, o.Ending(pod), o.Kept(uid)}
		if got != want {
			t.Errorf("%s: %+v, want %+v", uid, got, want)
		}
	}
}

// Soft handlers see the pods with a place, without the candidate.
func TestOthersHaveAPlace(t *testing.T) {
	o := newOccupants()
	var got []*v1.Pod
	for pod := range o.Others("runs") {
		got = append(got, pod)
	}
	if want := []types.UID{"held", "stops", "stops-ended", "stops-later"}; !slices.Equal(uidsOf(got), want) {
		t.Errorf("%v, want %v", uidsOf(got), want)
	}
	for range o.Others("runs") {
		break
	}
}

// A pod with a verdict, one whose verdict cannot be read, and one that ends is not judged
// again.
func TestJudgedOnce(t *testing.T) {
	o := newOccupants()
	deleted := newPod("deleted")
	deleted.DeletionTimestamp = &metav1.Time{}
	failed := newPod("failed")
	failed.Status.Phase = v1.PodFailed
	for name, test := range map[string]struct {
		pod  *v1.Pod
		want bool
	}{
		"new": {newPod("new"), false}, "judged": {newPod("runs"), true}, "unreadable": {newPod("unreadable"), true},
		"deleted": {deleted, true}, "failed": {failed, true}, "stops": {newPod("stops"), true},
	} {
		if got := o.Judged(test.pod); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
