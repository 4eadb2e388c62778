package recovery

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop"
)

// runner is a source whose Run is a function.
type runner func(ctx context.Context, deliver func(context.Context, []*v1.Pod) error) error

func (runner) Name() string { return "file" }

func (f runner) Run(ctx context.Context, deliver func(context.Context, []*v1.Pod) error) error {
	return f(ctx, deliver)
}

// again runs a source as the loop does, with a pause after each failure and panics as errors, and hands its sets to deliver.
func (r *rig) again(s syncloop.Source, deliver func(context.Context, []*v1.Pod) error) {
	r.start(func(ctx context.Context) error {
		for pause := time.Second; ; pause = min(2*pause, 20*time.Second) {
			run := func() (err error) {
				defer func() {
					if p := recover(); p != nil {
						err = errDisk
					}
				}()
				return s.Run(ctx, deliver)
			}
			if run() == nil || timing.Sleep(ctx, clock.RealClock{}, pause) != nil {
				return nil
			}
		}
	})
}

// into returns a deliver that collects the UIDs of the sets.
func (d *deliveries) into() func(context.Context, []*v1.Pod) error {
	return func(_ context.Context, pods []*v1.Pod) error {
		set := []types.UID{}
		for _, p := range pods {
			set = append(set, p.UID)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.sets = append(d.sets, set)
		return d.err
	}
}

func TestNilPodsOfASourceAreLeftOut(t *testing.T) { // M9, IN6
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk()).keep()
		own := newFileSource()
		var d deliveries
		r.again(r.journal.Remembering(own, true, func() bool { return false }), d.into())
		own.sets <- []*v1.Pod{nil, newPod("b"), nil}
		pass(time.Second)
		if all := d.all(); len(all) != 1 || !slices.Equal(all[0], []types.UID{"b"}) {
			t.Errorf("delivered: %v", all)
		}
	})
}

// TestPanicInADeliveryIsNoAnswer: IN6, SN5. What the program does while a set is taken over may panic: then nothing was said.
func TestPanicInADeliveryIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk(newRecord("a"))).keep()
		spoken := false
		s := r.journal.Remembering(runner(func(ctx context.Context, deliver func(context.Context, []*v1.Pod) error) error {
			if !spoken {
				spoken = true
				return deliver(ctx, nil)
			}
			<-ctx.Done()
			return errors.New("unreachable")
		}), true, func() bool { return false })
		var d deliveries
		first := true
		r.again(s, func(ctx context.Context, pods []*v1.Pod) error {
			if first {
				first = false
				panic("a program's handler")
			}
			return d.into()(ctx, pods)
		})
		pass(time.Minute)
		if all := d.all(); len(all) != 1 || !slices.Equal(all[0], []types.UID{"a"}) || s.(syncloop.Undecided).Undecided() == nil {
			t.Errorf("delivered: %v", all)
		}
	})
}

// TestRecordsStandInForASourceThatFails: SN5. A source that fails at once, or after a while, each time says as little as one
// that blocks.
func TestRecordsStandInForASourceThatFails(t *testing.T) {
	for name, tc := range map[string]struct {
		lasts, within time.Duration
		panics        bool
	}{
		"at once":      {0, 16 * time.Second, false},
		"after 5 s":    {5 * time.Second, 12 * time.Second, false},
		"by its panic": {0, 16 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newDisk(newRecord("a"))).keep()
				s := r.journal.Remembering(runner(func(ctx context.Context, _ func(context.Context, []*v1.Pod) error) error {
					_ = timing.Sleep(ctx, clock.RealClock{}, tc.lasts)
					if tc.panics {
						panic("a program's source")
					}
					return errors.New("connection refused")
				}), true, func() bool { return false })
				var d deliveries
				r.again(s, d.into())
				pass(defaultStandIn - 1)
				if all := d.all(); len(all) != 0 {
					t.Errorf("before its time: %v", all)
				}
				pass(tc.within - defaultStandIn + 1)
				if all := d.all(); len(all) != 1 || !slices.Equal(all[0], []types.UID{"a"}) || s.(syncloop.Undecided).Undecided() == nil {
					t.Errorf("delivered: %v", all)
				}
				pass(time.Hour)
				if all := d.all(); len(all) != 1 {
					t.Errorf("delivered in an hour: %v", all)
				}
			})
		})
	}
}

// TestSourceThatComesBackIsHeardFirst: SN5. What a source says at once when it is run again counts, not what it wanted before.
func TestSourceThatComesBackIsHeardFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk(newRecord("a"))).keep()
		runs := 0
		s := r.journal.Remembering(runner(func(ctx context.Context, deliver func(context.Context, []*v1.Pod) error) error {
			if runs++; runs < 5 { // at 0, 1, 3 and 7 s
				return errors.New("connection refused")
			}
			_ = timing.Sleep(ctx, clock.RealClock{}, time.Second/2)
			if err := deliver(ctx, []*v1.Pod{newPod("b")}); err != nil {
				return err
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}), true, func() bool { return false })
		var d deliveries
		r.again(s, d.into())
		pass(time.Minute)
		if all := d.all(); len(all) != 1 || !slices.Equal(all[0], []types.UID{"b"}) {
			t.Errorf("delivered: %v", all)
		}
	})
}

// TestStandInThatWasNotTakenIsRepeated: SN5. A stand-in that ended with its source's run was not made.
func TestStandInThatWasNotTakenIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk(newRecord("a"))).keep()
		s := r.journal.Remembering(runner(func(ctx context.Context, _ func(context.Context, []*v1.Pod) error) error {
			_ = timing.Sleep(ctx, clock.RealClock{}, 12*time.Second)
			return errors.New("connection refused")
		}), true, func() bool { return false })
		var d deliveries
		busy := true // as while the loop is slow
		r.again(s, func(ctx context.Context, pods []*v1.Pod) error {
			if busy {
				busy = false
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return d.into()(ctx, pods)
		})
		pass(time.Minute)
		if all := d.all(); len(all) != 1 || !slices.Equal(all[0], []types.UID{"a"}) {
			t.Errorf("delivered: %v", all)
		}
	})
}

// TestFailingSourceIsRunWhileTheRecordsAreNotLoaded: PS6, SN5. A disk that hangs holds up no source that could be heard without
// it, and the records stand in once they are there.
func TestFailingSourceIsRunWhileTheRecordsAreNotLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk(newRecord("a"))
		disk.answers = make(chan struct{})
		r := newRig(t, disk)
		r.start(func(ctx context.Context) error { return r.Load(ctx) })
		var runs atomic.Int32
		s := r.journal.Remembering(runner(func(context.Context, func(context.Context, []*v1.Pod) error) error {
			runs.Add(1)
			return errors.New("connection refused")
		}), true, func() bool { return false })
		var d deliveries
		r.again(s, d.into())
		pass(time.Hour)
		if n := runs.Load(); n < 100 {
			t.Errorf("the source was run %d times", n)
		}
		close(disk.answers)
		r.start(r.KeepRecords)
		pass(time.Minute)
		if all := d.all(); len(all) != 1 || !slices.Equal(all[0], []types.UID{"a"}) {
			t.Errorf("delivered: %v", all)
		}
	})
}

// named is a source under another name.
type named struct {
	*fileSource
	name string
}

func (s named) Name() string { return s.name }

// TestAnotherSourceRevivesNoPod: IN10, PS6. A life that is over is not begun again for another source that names its UID: that
// source gets the UID, and its pod a life of its own.
func TestAnotherSourceRevivesNoPod(t *testing.T) {
	droppedBefore := func(r *checkpoint.Record) { r.Unwanted = true }
	for name, record := range map[string]*checkpoint.Record{
		"retired":                          newRecord("a", phase(v1.PodFailed), finished, retired),
		"ended and dropped before a start": newRecord("a", phase(v1.PodFailed), finished, droppedBefore),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newDisk(record)).keep()
				other := named{newFileSource(), "other"}
				var d deliveries
				d.run(r, r.journal.Remembering(other, true, func() bool { return true }))
				other.sets <- []*v1.Pod{newPod("a")}
				pass(time.Minute)
				if pod, source := r.journal.Owner("a"); source != "" {
					t.Errorf("the UID belongs to %q again: %v", source, pod)
				}
				kept := r.disk.get("a")
				if kept == nil || !kept.EarlierLife || kept.Lives != 1 || kept.Status != nil || kept.Finished || r.journal.isRetired(kept) {
					t.Errorf("on the disk: %+v", kept)
				}
				if all := lastDesired([]*checkpoint.Record{kept}, "file"); len(all) > 0 {
					t.Error("the dropped pod would stand in for its source")
				}
				r.want("the delivery", "restore a Failed", "renewed a")
			})
		})
	}
}

// TestPodOfAnotherSourceKeepsItsRecord: PS6. What a source says of a UID changes nothing of a life of another source that is not over.
func TestPodOfAnotherSourceKeepsItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk(newRecord("a"), newRecord("b", phase(v1.PodFailed), finished))).keep()
		other := named{newFileSource(), "other"}
		var d deliveries
		d.run(r, r.journal.Remembering(other, true, func() bool { return true }))
		other.sets <- []*v1.Pod{newPod("a"), newPod("b")}
		pass(time.Minute)
		for _, uid := range []types.UID{"a", "b"} {
			if _, source := r.journal.Owner(uid); source != "file" || r.disk.get(uid).Lives != 0 {
				t.Errorf("%s: owner %q, record %+v", uid, source, r.disk.get(uid))
			}
		}
	})
}

// hasty is a source that says of each set once what it lacks.
type hasty struct {
	*fileSource
	lacks chan error
	asked atomic.Int32
}

func (s *hasty) Undecided() error {
	s.asked.Add(1)
	select {
	case err := <-s.lacks:
		return err
	default:
		return nil
	}
}

// TestSourceIsAskedOncePerSet: IN9, ND2. What a source says of a set counts for that set, also when it says something else soon
// after: a pod that it could not name is not taken for one that it dropped.
func TestSourceIsAskedOncePerSet(t *testing.T) {
	for _, early := range []bool{false, true} {
		t.Run(fmt.Sprint("before the records are known ", early), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := newDisk(newRecord("a"), newRecord("b"))
				r := newRig(t, disk)
				if !early {
					r.keep()
				}
				own := &hasty{fileSource: newFileSource(), lacks: make(chan error, 1)}
				s := r.journal.Remembering(own, true, func() bool { return false })
				var d deliveries
				var said []error
				r.again(s, func(ctx context.Context, pods []*v1.Pod) error {
					said = append(said, s.(syncloop.Undecided).Undecided()) // as the loop does
					return d.into()(ctx, pods)
				})
				own.lacks <- errDisk
				own.sets <- []*v1.Pod{newPod("a")}
				pass(time.Second)
				if early {
					r.keep()
				}
				pass(time.Minute)
				if n := own.asked.Load(); n != 1 || len(said) != 1 || !errors.Is(said[0], errDisk) {
					t.Errorf("asked %d times, the loop heard %v", n, said)
				}
				if r.journal.Dropped("b") || disk.get("b").Unwanted {
					t.Error("b counts as dropped, which the source could not name")
				}
				own.sets <- []*v1.Pod{newPod("a")}
				pass(time.Minute)
				if n := own.asked.Load(); n != 2 || len(said) != 2 || said[1] != nil || !r.journal.Dropped("b") || r.journal.Dropped("a") {
					t.Errorf("asked %d times, the loop heard %v", n, said)
				}
			})
		})
	}
}

// TestSetThatIsCompletedLaterIsTheSame: IN9. What is filled in later does not make a set more than it was.
func TestSetThatIsCompletedLaterIsTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk(newRecord("a"), newRecord("b"))).keep()
		var found atomic.Bool
		r.journal.options.Admitted = func(pods []*v1.Pod) ([]*v1.Pod, bool) {
			if !found.Load() {
				return pods, false
			}
			return copies(pods), true
		}
		own := &hasty{fileSource: newFileSource(), lacks: make(chan error, 1)}
		s := r.journal.Remembering(own, true, func() bool { return false })
		var d deliveries
		var said []error
		r.again(s, func(ctx context.Context, pods []*v1.Pod) error {
			said = append(said, s.(syncloop.Undecided).Undecided())
			return d.into()(ctx, pods)
		})
		own.lacks <- errDisk
		own.sets <- []*v1.Pod{newPod("a")}
		pass(time.Second)
		found.Store(true)
		pass(time.Minute)
		if len(said) != 2 || !errors.Is(said[0], errDisk) || !errors.Is(said[1], errDisk) || own.asked.Load() != 1 {
			t.Errorf("asked %d times, the loop heard %v", own.asked.Load(), said)
		}
	})
}

// locking is a source that needs a lock for its name, and holds it while it delivers.
type locking struct {
	*fileSource
	mu sync.Mutex
}

func (s *locking) Name() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fileSource.Name()
}

func (s *locking) Run(ctx context.Context, deliver func(context.Context, []*v1.Pod) error) error {
	return s.fileSource.Run(ctx, func(ctx context.Context, pods []*v1.Pod) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		return deliver(ctx, pods)
	})
}

// TestSourceDeliversUnderTheLockOfItsName: IN6. It does not wait for itself, also if its pods get UIDs of the node (PS8) and if
// its remembered ones ran before.
func TestSourceDeliversUnderTheLockOfItsName(t *testing.T) {
	for _, ownUIDs := range []bool{false, true} {
		t.Run(fmt.Sprint("own UIDs ", ownUIDs), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newDisk(newRecord("a"), newRecord("b"))).keep()
				own := &locking{fileSource: newFileSource()}
				wrapped, err := NewOwnUIDs(filepath.Join(t.TempDir(), "key"), func(string) bool { return ownUIDs }).Wrap(own)
				if err != nil {
					t.Fatal(err)
				}
				s := r.journal.Remembering(wrapped, true, func() bool { return false })
				var d deliveries
				r.again(s, d.into())
				pass(defaultStandIn)
				own.sets <- []*v1.Pod{newPod("a")}
				pass(time.Minute)
				if all := d.all(); len(all) != 2 || len(all[0]) != 2 || len(all[1]) != 1 || !r.journal.Dropped("b") || s.Name() != "file" {
					t.Errorf("delivered: %v", all)
				}
			})
		})
	}
}
