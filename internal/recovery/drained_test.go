package recovery

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/status/checkpoint"
)

// TestDrainedPods: SN5, CK7. A drain ends the lives of its pods. Those that a source may want are remembered without that life.
func TestDrainedPods(t *testing.T) {
	killed := stopping(checkpoint.Termination{Cause: checkpoint.CauseKilled})
	edit := func(f func(*v1.Pod)) func(*checkpoint.Record) {
		return func(r *checkpoint.Record) { f(r.Pod) }
	}
	for name, tc := range map[string]struct {
		edits  []func(*checkpoint.Record)
		wanted bool
		want   string
	}{
		"its source wants it":           {[]func(*checkpoint.Record){begun, killed, finished}, true, "another life"},
		"its source was not heard":      {[]func(*checkpoint.Record){begun}, false, "another life"},
		"its source dropped it":         {[]func(*checkpoint.Record){begun, killed, finished}, false, "gone"},
		"its source did not name it":    {[]func(*checkpoint.Record){begun, func(r *checkpoint.Record) { r.Unwanted = true }}, false, "gone"},
		"it was being deleted":          {[]func(*checkpoint.Record){begun, edit(deleting)}, true, "gone"},
		"it was told to go":             {[]func(*checkpoint.Record){begun, stopping(checkpoint.Termination{Cause: checkpoint.CauseDeleted, Deleted: true})}, true, "gone"},
		"a pod of an API":               {[]func(*checkpoint.Record){begun, killed, edit(fromAPI)}, true, "gone"},
		"nothing but its end is known":  {[]func(*checkpoint.Record){begun, killed, hasNoPod}, true, "gone"},
		"it had ended by itself before": {[]func(*checkpoint.Record){begun, finished, phase(v1.PodSucceeded)}, true, "as it was"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newDisk(newRecord("a", tc.edits...))).keep()
				j := r.journal
				pod := podOf(j.Get("a"))
				j.Drained("a", tc.wanted)
				if tc.want != "as it was" { // the sinks still have to be told, and what they take is not of the next life
					if !j.Durable("a", true) {
						t.Error("the last status waits for a record")
					}
					j.Changed(pod, &v1.PodStatus{Phase: v1.PodRunning}, 5, true)
					j.Acknowledged("a", "s", "a", 5)
					if err := j.Record(t.Context(), "a", podworkers.Facts{TerminationRequested: true, Terminated: true, Finished: true}); err != nil {
						t.Error(err)
					}
				}
				pass(time.Minute)
				kept, got := r.disk.get("a"), "gone"
				switch {
				case kept == nil:
				case kept.Finished:
					got = "as it was"
				case kept.EarlierLife && kept.Lives == 1 && kept.Status == nil && kept.Termination == nil && kept.Version == 0 && len(kept.Acks) == 0:
					got = "another life"
				}
				if got != tc.want {
					t.Errorf("it is %s, want %s: %+v", got, tc.want, kept)
				}
				if all := lastDesired(j.keeper.All(), "file"); (len(all) == 1) != (tc.want != "gone") {
					t.Errorf("remembered: %v", all)
				}
			})
		})
	}
}

// TestUnknownPodIsDrained: a pod without a record gets none.
func TestUnknownPodIsDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk()).keep()
		r.journal.Drained(types.UID("a"), true)
		if r.journal.Get("a") != nil {
			t.Error("it has a record")
		}
	})
}
