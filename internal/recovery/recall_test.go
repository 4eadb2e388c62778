package recovery

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/status/checkpoint"
)

func ran(ids ...string) func(*checkpoint.Record) {
	return func(r *checkpoint.Record) {
		for _, id := range ids {
			r.Containers = append(r.Containers, checkpoint.Container{Name: id, ID: id})
		}
	}
}

func terminated(r *checkpoint.Record) { r.TerminatedAt = time.Unix(2, 0) }

// spec/pleg.md R15: the newest runs that are on record are recalled, unless nothing runs any more or the ID is no ID.
func TestRecordsAreRecalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk(
			newRecord("a", ran("fake://1", "fake://2")), newRecord("b", ran("fake://3"), finished), newRecord("c", ran("fake://4"), terminated),
			newRecord("d", ran("", "nonsense", "fake://")), newRecord("e", ran("fake://5"), otherBoot, stopping(checkpoint.Termination{})),
		))
		if err := r.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := r.took()
		slices.Sort(got)
		if want := []string{"recall a [1 2]", "recall e [5]"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// spec/pleg.md R15: if the first list may have come before the records, another one comes before the gate opens. Lists that
// fail are repeated.
func TestLateRecordsNeedAnotherList(t *testing.T) {
	for name, c := range map[string]struct {
		load func(r *rig) // until the records are there
		want []string
	}{
		"in time":           {func(*rig) {}, []string{"recall a [1]", "event Normal Recovered", "opened"}},
		"after an error":    {func(r *rig) { pass(time.Second); r.disk.fail(nil, nil) }, []string{"recall a [1]", "relist", "relist", "event Normal Recovered", "opened"}},
		"after the runtime": {func(r *rig) { pass(15 * time.Second); close(r.disk.answers) }, []string{"recall a [1]", "relist", "relist", "event Normal Recovered", "opened"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newDisk(newRecord("a", ran("fake://1"))))
				switch name {
				case "after an error":
					r.disk.fail(errDisk, nil)
				case "after the runtime":
					r.disk.answers = make(chan struct{})
				}
				close(r.synced)
				r.listErrs = []error{runtime.ErrUnavailable}
				r.Start(t.Context())
				r.start(r.Run)
				c.load(r)
				pass(time.Minute)
				r.want(name, c.want...)
			})
		})
	}
}

// A recovery that waits for a list ends with its context.
func TestLateRecordsEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk())
		r.disk.fail(errDisk, nil)
		close(r.synced)
		r.listErrs = slices.Repeat([]error{runtime.ErrUnavailable}, 1000)
		r.Start(t.Context())
		r.disk.fail(nil, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.Run(ctx); err != nil || ctx.Err() == nil {
			t.Errorf("Run: %v, %v", err, ctx.Err())
		}
		if r.Gate() == nil {
			t.Error("the gate is open")
		}
	})
}
