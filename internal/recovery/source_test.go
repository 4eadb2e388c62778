package recovery

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/syncloop"
)

// fileSource is a source that says what the test says.
type fileSource struct {
	sets chan []*v1.Pod
	syncloop.SourceHealth
}

func newFileSource() *fileSource { return &fileSource{sets: make(chan []*v1.Pod)} }

func (s *fileSource) Name() string { return "file" }

func (s *fileSource) Run(ctx context.Context, deliver func(context.Context, []*v1.Pod) error) error {
	for {
		select {
		case set := <-s.sets:
			_ = deliver(ctx, set)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// rich is a source with every optional ability.
type rich struct{ *fileSource }

func (rich) Precedence() syncloop.Precedence { return syncloop.PrecedenceHTTP }
func (rich) Undecided() error                { return errDisk }
func (s rich) Health() syncloop.SourceHealth { return s.SourceHealth }

// deliveries runs a source and collects what it delivers.
type deliveries struct {
	mu   sync.Mutex
	sets [][]types.UID
	err  error
}

// all returns what was delivered.
func (d *deliveries) all() [][]types.UID {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.sets)
}

// fail makes deliveries fail, or succeed again with nil.
func (d *deliveries) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

func (d *deliveries) run(r *rig, s syncloop.Source) {
	r.start(func(ctx context.Context) error {
		err := s.Run(ctx, func(_ context.Context, pods []*v1.Pod) error {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.err != nil {
				return d.err
			}
			set := []types.UID{}
			for _, p := range pods {
				set = append(set, p.UID)
			}
			d.sets = append(d.sets, set)
			return nil
		})
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	})
}

func TestRecordsStandInForASilentSource(t *testing.T) { // architecture decision 6
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk(newRecord("a"), newRecord("b"))).keep()
		own := newFileSource()
		s := r.journal.Remembering(own, true, func() bool { return false })
		var d deliveries
		d.run(r, s)
		undecided := func() error { return s.(syncloop.Undecided).Undecided() }
		health := func() error { return s.(syncloop.HealthReporter).Health().LastError }
		pass(defaultStandIn - 1)
		if err := errors.Join(undecided(), health()); len(d.all()) != 0 || err != nil {
			t.Errorf("before its time: %v, %v", d.all(), err)
		}
		pass(time.Second)
		if len(d.all()) != 1 || !slices.Equal(d.all()[0], []types.UID{"a", "b"}) {
			t.Errorf("delivered: %v", d.all())
		}
		if undecided() == nil || health() == nil {
			t.Error("the source counts as decided and healthy")
		}
		own.sets <- []*v1.Pod{newPod("b"), newPod("c")}
		pass(time.Minute)
		if len(d.all()) != 2 || !slices.Equal(d.all()[1], []types.UID{"b", "c"}) {
			t.Errorf("delivered: %v", d.all())
		}
		if err := errors.Join(undecided(), health()); err != nil {
			t.Errorf("the source has spoken: %v", err)
		}
		if !r.disk.get("a").Unwanted || r.disk.get("b").Unwanted {
			t.Error("the source no longer wants a, and wants b")
		}
		own.sets <- nil
		pass(time.Minute)
		if r.disk.get("b").Unwanted {
			t.Error("only the first word counts: later ones are told to the workers")
		}
	})
}

// withholding is a source whose remembered pods must not run while it says so.
type withholding struct {
	*fileSource
	why atomic.Pointer[error]
}

func (s *withholding) Withheld() error {
	if why := s.why.Load(); why != nil {
		return *why
	}
	return nil
}

// TestWithheldPodsWait: SN5. Records do not stand in for a silent source that knows that the pods are not this node's; they do
// soon after it ceases to, unless it has answered.
func TestWithheldPodsWait(t *testing.T) {
	for _, answers := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newDisk(newRecord("a"))).keep()
			own := &withholding{fileSource: newFileSource()}
			own.why.Store(&errDisk)
			var d deliveries
			d.run(r, r.journal.Remembering(own, true, func() bool { return false }))
			pass(time.Hour)
			if len(d.all()) != 0 {
				t.Fatalf("delivered: %v", d.all())
			}
			want := []types.UID{"a"}
			if answers {
				own.sets <- []*v1.Pod{newPod("b")}
				want = []types.UID{"b"}
			}
			own.why.Store(nil)
			pass(time.Minute)
			if len(d.all()) != 1 || !slices.Equal(d.all()[0], want) {
				t.Errorf("delivered: %v, want %v", d.all(), want)
			}
		})
	}
}

// TestRetiredLifeEndsBeforeItsUIDIsDelivered: IN10: what was kept of a life for a sink is gone
// before anything decides about the next one; pods that are not retired keep their records.
func TestRetiredLifeEndsBeforeItsUIDIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk(newRecord("a", phase(v1.PodFailed), finished), newRecord("b", phase(v1.PodFailed), finished))).keep()
		r.journal.Adopt(newPod("a"))
		r.journal.retire(r.journal.Get("a"))
		pass(time.Minute)
		if !r.journal.isRetired(r.journal.Get("a")) || r.disk.get("a").Retired {
			t.Error("a is not retired, or it is written although a sink may take its end soon")
		}
		r.journal.retire(r.journal.Get("a"))
		pass(time.Minute)
		if !r.disk.get("a").Retired || r.journal.Handed("a") {
			t.Error("a is not retired")
		}
		r.took()
		own := newFileSource()
		var d deliveries
		d.run(r, r.journal.Remembering(own, true, func() bool { return true }))
		own.sets <- []*v1.Pod{newPod("a"), newPod("b")}
		pass(time.Second)
		r.want("the delivery", "renewed a")
		if len(d.all()) != 1 || r.journal.Get("a").Status != nil || r.journal.isRetired(r.journal.Get("a")) || !r.journal.Get("b").Finished {
			t.Errorf("delivered %v, records %v %v", d.all(), r.journal.Get("a"), r.journal.Get("b"))
		}
	})
}

func TestSourceThatAnswersNeedsNoStandIn(t *testing.T) {
	for name, tc := range map[string]struct {
		standIn bool
		records *disk
		answer  bool
	}{
		"answered":              {true, newDisk(newRecord("a")), true},
		"not wanted":            {false, newDisk(newRecord("a")), false},
		"nothing is remembered": {true, newDisk(), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, tc.records).keep()
				own := newFileSource()
				s := r.journal.Remembering(own, tc.standIn, func() bool { return true })
				var d deliveries
				d.run(r, s)
				want := 0
				if tc.answer {
					own.sets <- nil
					want = 1
				}
				pass(time.Hour)
				if len(d.all()) != want || s.(syncloop.Undecided).Undecided() != nil {
					t.Errorf("delivered: %v", d.all())
				}
			})
		})
	}
}

// A delivery that the loop did not accept does not count as made.
func TestWordThatWasNotTakenDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk(newRecord("a"))).keep()
		own := newFileSource()
		d := deliveries{err: errDisk}
		d.run(r, r.journal.Remembering(own, true, func() bool { return true }))
		own.sets <- nil
		synctest.Wait()
		d.fail(nil)
		pass(defaultStandIn)
		synctest.Wait()
		if len(d.all()) != 1 || !slices.Equal(d.all()[0], []types.UID{"a"}) || r.journal.Get("a").Unwanted {
			t.Errorf("delivered: %v", d.all())
		}
	})
}

func TestAbilitiesOfASourceShowThroughItsStandIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk()).keep()
		plain := r.journal.Remembering(newFileSource(), true, nil)
		if p := plain.(syncloop.Preceded).Precedence(); p != syncloop.PrecedenceInProcess || plain.Name() != "file" {
			t.Errorf("a plain source: %v", p)
		}
		own := newFileSource()
		own.LastError = errDisk
		s := r.journal.Remembering(rich{own}, true, nil)
		var d deliveries
		d.run(r, s)
		own.sets <- nil
		synctest.Wait()
		if s.(syncloop.Preceded).Precedence() != syncloop.PrecedenceHTTP || !errors.Is(s.(syncloop.Undecided).Undecided(), errDisk) ||
			!errors.Is(s.(syncloop.HealthReporter).Health().LastError, errDisk) {
			t.Error("an ability is lost")
		}
	})
}
