package recovery

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/status/checkpoint"
)

// pods are those that sources want, workers those that have one: true if it has done its
// last step.
type pods map[types.UID]*v1.Pod

func (p pods) Get(uid types.UID) (*v1.Pod, bool) { pod, ok := p[uid]; return pod, ok }

type workers map[types.UID]bool

func (w workers) IsPodKnown(uid types.UID) bool {
	_, known := w[uid]
	return known
}

func (w workers) ShouldPodBeFinished(uid types.UID) bool { return w[uid] }

func TestPrunerRemovesRecordsOfNoMoreUse(t *testing.T) { // CK7, HI7
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(newRecord("wanted"), newRecord("over", phase(v1.PodFailed)), newRecord("unseen", begun), newRecord("busy"), newRecord("gone", finished))
		r := newRig(t, d).keep()
		r.views["unseen"] = view("unseen", runtime.Exited)
		wanted := map[types.UID]struct{}{"wanted": {}, "over": {}}
		var told []types.UID
		untold := true
		var known map[types.UID]struct{}
		p := NewPruner(PrunerOptions{
			Journal: r.journal, Desired: pods{"wanted": nil, "over": nil}, Workers: workers{"over": true, "busy": false},
			Undecided: func() error { return nil }, View: r.Get,
			TellEnd: func(pod *v1.Pod, v *runtime.PodStatus) error {
				if pod.UID == "unseen" && len(v.Containers) != 1 {
					t.Errorf("its end is not told with what the runtime has: %+v", v)
				}
				told = append(told, pod.UID)
				return errors.New("a sink is broken")
			},
			Forget: func(k map[types.UID]struct{}) { known = k }, Untold: func(types.UID) bool { return untold }, Sinks: []string{"s"}, Clock: clock.RealClock{},
		})
		r.journal.Adopt(newPod("gone"))
		r.journal.Acknowledged("gone", "s", "gone", 0)
		p.RemoveOrphanedStatuses(wanted)
		if want := []types.UID{"over", "unseen"}; !slices.Equal(told, want) {
			t.Errorf("told the end of %v, want %v", told, want)
		}
		if got, want := slices.Sorted(maps.Keys(known)), []types.UID{"busy", "over", "unseen", "wanted"}; !slices.Equal(got, want) {
			t.Errorf("statuses of %v stay, want %v", got, want)
		}
		if len(wanted) != 2 {
			t.Error("the caller's set was changed")
		}
		pass(time.Minute)
		if r := d.get("gone"); r == nil || r.Retired {
			t.Errorf("FG1: a sink has not heard that the pod is forgotten, and its record is %+v", r)
		}
		p.RemoveOrphanedStatuses(wanted)
		pass(time.Minute)
		if r := d.get("gone"); r == nil || !r.Retired {
			t.Errorf("IN10: a sink has not heard it for a minute, and the record is %+v", r)
		}
		untold = false
		p.RemoveOrphanedStatuses(wanted)
		pass(time.Minute)
		if d.get("gone") != nil || d.get("unseen") == nil {
			t.Error("the record that is of no more use goes, and only that")
		}
	})
}

// TestPassRenewsALifeOnce: IN10: while a pass runs, a source may begin a new life of a UID that the
// pass found over. What that life has recorded stays.
func TestPassRenewsALifeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk(newRecord("a", phase(v1.PodFailed), finished, retired), newRecord("b", phase(v1.PodFailed), finished, retired))).keep()
		NewPruner(PrunerOptions{
			Journal: r.journal, Desired: pods{"a": nil}, Workers: workers{}, Undecided: func() error { return nil }, View: r.Get, Clock: clock.RealClock{},
			Forget: func(map[types.UID]struct{}) {
				r.journal.renewRetired("file", []*v1.Pod{newPod("a")})
				r.Complete(podworkers.UpdateOptions{Type: podworkers.Create, Pod: newPod("a")})
				if err := r.journal.Record(t.Context(), "a", podworkers.Facts{}); err != nil {
					t.Error(err)
				}
			},
			Untold: func(types.UID) bool { return false },
		}).RemoveOrphanedStatuses(nil)
		if record := r.journal.Get("a"); record.Lives != 1 || record.Admission == nil || !r.journal.Handed("a") {
			t.Errorf("%d lives, admission %v, handed over %v", record.Lives, record.Admission, r.journal.Handed("a"))
		}
	})
}

// TestRecordStaysForWhatIsLeftOfAnEarlierLife: CK7, PS6. The next life of a UID never began: the record tells what the runtime
// still has of the earlier one from the next pod's with this UID, for a day at most.
func TestRecordStaysForWhatIsLeftOfAnEarlierLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lately := func(r *checkpoint.Record) { r.WrittenAt = time.Now() }
		d := newDisk(newRecord("left", renewed, lately), newRecord("gone", renewed, lately), newRecord("old", renewed))
		r := newRig(t, d).keep()
		r.views["left"], r.views["old"] = view("left", runtime.Exited), view("old", runtime.Exited)
		p := NewPruner(PrunerOptions{
			Journal: r.journal, Desired: pods{}, Workers: workers{}, Undecided: func() error { return nil }, View: r.Get, Clock: clock.RealClock{},
			Forget: func(map[types.UID]struct{}) {}, Untold: func(types.UID) bool { return false },
		})
		p.RemoveOrphanedStatuses(map[types.UID]struct{}{})
		pass(time.Second)
		if d.get("gone") != nil || d.get("old") != nil || d.get("left") == nil {
			t.Errorf("records: %v", d.records)
		}
		if pod, source := r.journal.Owner("left"); pod != nil || source != "" {
			t.Errorf("it belongs to %q", source)
		}
		r.Complete(podworkers.UpdateOptions{Type: podworkers.Create, Pod: newPod("left", func(p *v1.Pod) { p.Spec.RestartPolicy = v1.RestartPolicyNever })})
		if !r.journal.EarlierLife("left") || r.journal.Get("left").Lives != 1 {
			t.Errorf("what is left is taken for the next life's: %+v", r.journal.Get("left"))
		}
	})
}

// TestEarlyStopCountsForOneLife: a pod that the node told to stop before its source had named it
// counts as delivered once that life is over and the UID has another.
func TestEarlyStopCountsForOneLife(t *testing.T) {
	for name, end := range map[string]func(j *Journal){
		"forgotten": func(j *Journal) { j.Delete("a") },
		"retired":   func(j *Journal) { j.retire(j.Get("a")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := newRig(t, newDisk(newRecord("a", phase(v1.PodFailed), finished))).keep().journal
				j.adoptEarly(newPod("a"))
				if j.Delivered("a") {
					t.Error("no source has named it")
				}
				end(j)
				j.Adopt(newPod("a"))
				if !j.Delivered("a") {
					t.Error("it was stopped because no source wanted it")
				}
			})
		})
	}
}
