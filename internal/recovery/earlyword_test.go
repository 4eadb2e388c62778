package recovery

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/status/checkpoint"
)

// TestWordBeforeTheRecordsIsRecorded: IN10, DR8. What a lone source says while the disk hangs counts when the records are there:
// the last it said, as far as it could name everything.
func TestWordBeforeTheRecordsIsRecorded(t *testing.T) {
	for name, undecided := range map[string]bool{"decided": false, "undecided": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				droppedBefore := func(r *checkpoint.Record) { r.Unwanted = true }
				disk := newDisk(newRecord("a"), newRecord("b"), newRecord("c"), newRecord("job", phase(v1.PodSucceeded), finished, droppedBefore))
				disk.answers = make(chan struct{})
				r := newRig(t, disk)
				r.start(func(ctx context.Context) error { return r.Load(ctx) })
				r.start(r.KeepRecords)
				own := newFileSource()
				var d deliveries
				if undecided {
					d.run(r, r.journal.Remembering(rich{own}, true, func() bool { return false }))
				} else {
					d.run(r, r.journal.Remembering(own, true, func() bool { return false }))
				}
				own.sets <- []*v1.Pod{newPod("a"), newPod("b"), newPod("c"), newPod("job")}
				own.sets <- []*v1.Pod{newPod("b"), newPod("job")}
				pass(time.Minute)
				close(disk.answers)
				pass(time.Minute)
				var unwanted []types.UID
				for _, record := range r.journal.keeper.All() {
					if disk.get(record.UID).Unwanted {
						unwanted = append(unwanted, record.UID)
					}
				}
				want := []types.UID{"a", "c"}
				if undecided {
					want = nil
				}
				if !slices.Equal(unwanted, want) {
					t.Errorf("not wanted: %v, want %v", unwanted, want)
				}
				if job := disk.get("job"); job.Finished || job.Lives != 1 || !job.EarlierLife {
					t.Errorf("the job that was put back has no other life: %+v", job)
				}
				own.sets <- []*v1.Pod{newPod("job")}
				pass(time.Minute)
				if disk.get("b").Unwanted && !undecided {
					t.Error("only the first word counts")
				}
				if all := d.all(); len(all) != 3 {
					t.Errorf("delivered: %v", all)
				}
			})
		})
	}
}

// TestSourceAmongOthersWaitsForTheRecords: PS6.
func TestSourceAmongOthersWaitsForTheRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk()
		disk.answers = make(chan struct{})
		r := newRig(t, disk)
		r.start(func(ctx context.Context) error { return r.Load(ctx) })
		own := newFileSource()
		var d deliveries
		s := r.journal.Remembering(own, true, func() bool { return false })
		r.journal.Remembering(named{own, "other"}, true, func() bool { return false })
		d.run(r, s)
		own.sets <- []*v1.Pod{newPod("a")}
		pass(time.Hour)
		if all := d.all(); len(all) != 0 {
			t.Errorf("delivered before the records: %v", all)
		}
		close(disk.answers)
		pass(time.Second)
		if all := d.all(); len(all) != 1 {
			t.Errorf("delivered: %v", all)
		}
	})
}
