package cleanup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/timing"
)

var errCameBack = errors.New("the pod is wanted again")

// holds is an owner of lives whose holds a test looks at.
type holds struct {
	mu sync.Mutex
	// living are pods of which a life is under way.
	living map[types.UID]bool
	held   map[types.UID]int
	cut    map[types.UID]context.CancelCauseFunc
}

func (h *holds) hold(ctx context.Context, uid types.UID, _ string) (context.Context, func(), bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.living[uid] {
		return ctx, func() {}, false
	}
	ctx, h.cut[uid] = context.WithCancelCause(ctx)
	h.held[uid]++
	return ctx, func() { h.mu.Lock(); defer h.mu.Unlock(); h.held[uid]-- }, true
}

func newHolds() *holds {
	return &holds{living: map[types.UID]bool{}, held: map[types.UID]int{}, cut: map[types.UID]context.CancelCauseFunc{}}
}

// bubble is t.Run in virtual time.
func bubble(t *testing.T, name string, f func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// TestEachRemovalHoldsItsPod (IN3): every kind of removal holds its pod until it has ended,
// however it ends, and does nothing to a pod of which a life is under way.
func TestEachRemovalHoldsItsPod(t *testing.T) {
	for step, put := range map[string]func(o *outback, uid types.UID){
		"remove content":   func(o *outback, uid types.UID) { o.content[uid] = true; o.Finished(uid) },
		"remove logs":      func(o *outback, uid types.UID) { o.logDirs[uid] = true },
		"remove folder":    func(o *outback, uid types.UID) { o.podDirs[uid] = true },
		"remove user IDs":  func(o *outback, uid types.UID) { o.ranges[uid] = true },
		"destroy a cgroup": func(o *outback, uid types.UID) { o.cgroups[uid] = true },
	} {
		for _, how := range []string{"succeeds", "fails", "panics", "is not begun"} {
			bubble(t, step+" "+how, func(t *testing.T) {
				h := newHolds()
				o := newOutback(t, func(options *Options) { options.Hold, options.Collector = h.hold, nil })
				o.pass(t, "first")
				put(o, "a")
				o.collectAt = time.Time{} // log folders too
				h.living["a"] = how == "is not begun"
				seen := 0
				o.removing = func() {
					seen = h.held["a"]
					if how == "panics" {
						panic("broken")
					}
				}
				if how == "fails" {
					for _, what := range []string{"content", "logs", "folder", "user IDs", "cgroup"} {
						o.removeErr[what+" a"] = errors.New("busy")
					}
				}
				err := o.try()
				if failed := how == "fails" || how == "panics"; failed != (err != nil) {
					t.Errorf("error %v", err)
				}
				if begun := how != "is not begun"; begun != (seen == 1) {
					t.Errorf("%d holds during the removal", seen)
				}
				if h.held["a"] != 0 {
					t.Errorf("%d holds afterwards", h.held["a"])
				}
			})
		}
	}
}

// TestHungRemovalDelaysNoOther (IN1, IN3, HI12): removals that never answer delay only their own
// pods, are not repeated, and are named by the plan; other pods' remains go meanwhile.
func TestHungRemovalDelaysNoOther(t *testing.T) {
	const n = 100
	for _, bad := range []int{1, n / 2, n - 1} {
		t.Run(fmt.Sprintf("%d of %d", bad, n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHolds()
				hang := make(chan struct{})
				o := newNode(t, func(options *Options) { options.Hold = h.hold; options.Rates.Directories = -1 })
				o.Housekeeper.options.Content = hanging{node: o, until: hang}
				o.pass(t, "first")
				for i := range n {
					name := "good"
					if i < bad {
						name = "bad"
					}
					o.podDirs[types.UID(fmt.Sprintf("%s-%02d", name, i))] = true
				}
				passes := 0
				for len(o.podDirs) > bad && passes < 10 {
					_ = o.try()
					<-time.After(2 * time.Second)
					synctest.Wait()
					passes++
				}
				if len(o.podDirs) != bad || passes > 3 {
					t.Errorf("%d folders are left after %d passes", len(o.podDirs), passes)
				}
				<-time.After(24 * time.Hour)
				_ = o.try()
				synctest.Wait()
				why := o.LastPlan().Actions[0].Forbidden
				if why.Rule != "OD10" || !strings.Contains(why.Why, "its removal has been under way since") {
					t.Errorf("the plan says %q", why)
				}
				if begun := len(slices.DeleteFunc(o.log, func(l string) bool { return !strings.HasPrefix(l, "hangs ") })); begun > bad {
					t.Errorf("%d removals of %d folders", begun, bad)
				}
				close(hang)
				o.Wait()
				_ = o.try()
				if len(o.podDirs) != 0 {
					t.Errorf("%d folders are left in the end", len(o.podDirs))
				}
			})
		})
	}
}

// TestRefusedContentIsLeftToTheCollector (HI12, IN1): the collector removes what the removal of a
// pod's whole content refuses at once, and leaves alone what that removal hangs on.
func TestRefusedContentIsLeftToTheCollector(t *testing.T) {
	for name, tc := range map[string]struct {
		took      time.Duration
		collected bool
	}{
		"refused at once":      {0, true},
		"failed after a while": {timing.Patience, false},
		"timed out":            {removalTimeout, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, nil)
				n.Housekeeper.options.Content = refusing{node: n, took: tc.took}
				n.pass(t, "first")
				n.content["liar"] = true
				n.Finished("liar")
				for began := time.Now(); time.Since(began) < time.Hour; <-time.After(2 * time.Second) {
					_ = n.try()
				}
				n.Wait()
				if collected := !n.content["liar"]; collected != tc.collected {
					t.Errorf("collected: %t; it did %q", collected, slices.Compact(n.log))
				}
			})
		})
	}
}

// TestFailingRemovalIsAProblem (IN2): what cannot be removed is named after a while, with the
// newest cause, and no longer once it is gone.
func TestFailingRemovalIsAProblem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newNode(t, func(*Options) {})
		o.pass(t, "first")
		o.podDirs["a"] = true
		failing := errors.New("device or resource busy")
		o.removeErr = map[string]error{"folder a": failing}
		began := time.Now()
		for range 40 {
			_ = o.try()
			all := o.Problems()
			if late := time.Since(began) >= 30*time.Second; late != (len(all) == 1) {
				t.Fatalf("after %v: %v", time.Since(began), all)
			} else if late && (!all[0].Since.Equal(began) || all[0].UID != "a" || !errors.Is(all[0], failing)) {
				t.Fatalf("%+v", all[0])
			}
			<-time.After(2 * time.Second)
		}
		o.removeErr = nil
		<-time.After(10 * time.Minute)
		_ = o.try()
		if all := o.Problems(); len(o.podDirs)+len(all) > 0 {
			t.Errorf("left %v, %v", o.podDirs, all)
		}
	})
}

// TestHungRemovalIsAProblem (IN2, HI12): a removal of any kind that does not return is named after
// 30 s, since it began, and no longer once it returns, even before the next pass.
func TestHungRemovalIsAProblem(t *testing.T) {
	for step, put := range map[string]func(o *outback){
		"remove content":    func(o *outback) { o.content["a"] = true; o.Finished("a") },
		"remove logs":       func(o *outback) { o.logDirs["a"] = true },
		"remove pod folder": func(o *outback) { o.podDirs["a"] = true },
		"release user IDs":  func(o *outback) { o.ranges["a"] = true },
		"remove cgroup":     func(o *outback) { o.cgroups["a"] = true },
	} {
		t.Run(step, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutback(t, func(options *Options) { options.Collector = nil })
				o.pass(t, "first")
				put(o)
				o.collectAt = time.Time{} // log folders too
				hang := make(chan struct{})
				o.removing = func() { <-hang }
				began := time.Now()
				_ = o.try()
				<-time.After(30*time.Second - time.Since(began) - 1)
				if early := o.Problems(); early != nil {
					t.Errorf("too soon: %v", early)
				}
				<-time.After(1)
				all := o.Problems()
				if len(all) != 1 || all[0].UID != "a" || !all[0].Since.Equal(began) || !strings.Contains(all[0].Waits, step) {
					t.Errorf("listed: %+v", all)
				}
				close(hang)
				o.Wait()
				if over := o.Problems(); over != nil {
					t.Errorf("it has ended: %v", over)
				}
			})
		})
	}
}

// hanging is content of which bad pods' folders do not go until a channel is closed,
// whatever the context.
type hanging struct {
	*node
	until chan struct{}
}

func (h hanging) RemovePodDir(ctx context.Context, uid types.UID) error {
	if strings.HasPrefix(string(uid), "bad") {
		h.note("hangs %s", uid)
		<-h.until
	}
	return h.node.RemovePodDir(ctx, uid)
}

// refusing is a node that removes the content of no pod, and takes its time to say so.
type refusing struct {
	*node
	took time.Duration
}

func (r refusing) RemovePod(_ context.Context, uid types.UID) error {
	r.note("refuses %s", uid)
	<-time.After(r.took)
	return errors.New("this UID names no folder")
}

// TestReturnOfPodCutsRemoval (IN3, IN12): a removal is asked to stop when its pod comes back.
// That is no failure.
func TestReturnOfPodCutsRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHolds()
		n := newNode(t, func(o *Options) { o.Hold = h.hold })
		n.pass(t, "first")
		n.podDirs["a"] = true
		n.removing = func() { h.cut["a"](errCameBack) }
		n.removeErr["folder a"] = context.Canceled
		n.pass(t, "cut off", "remove folder a")
		if last := n.outcomes[len(n.outcomes)-1]; last.Result != skipped || last.Why.Rule != "DR1" || !strings.Contains(last.Why.Why, errCameBack.Error()) {
			t.Errorf("%+v", last)
		}
	})
}

// TestEndOfPassesEndsRemovals (IN12): the end of the passes ends what they have left running.
func TestEndOfPassesEndsRemovals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nil)
		n.Housekeeper.options.Content = patient{n}
		n.pass(t, "first")
		n.podDirs["a"] = true
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := n.Housekeep(ctx, func(critical func()) { n.fenced = true; critical(); n.fenced = false }); err != nil {
			t.Error(err)
		}
		began := time.Now()
		cancel()
		n.Wait()
		if took := time.Since(began); took != 0 {
			t.Errorf("%v after the end", took)
		}
	})
}

// TestPanicEndsNoCollection (DR5, HI12): a veto that panics keeps only its object. The collector goes on, and collects it once the
// veto answers; no goroutine is left.
func TestPanicEndsNoCollection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		n := newNode(t, func(o *Options) {
			o.Veto = func(a Action) error {
				if broken && a.PodUID == "a" {
					panic("broken")
				}
				return nil
			}
		})
		n.content["a"], n.content["b"] = true, true
		ctx, cancel := context.WithCancel(t.Context())
		pass := func() (panicked any) {
			defer func() { panicked = recover() }() // as the loop does
			_, err := n.Housekeep(ctx, func(critical func()) { n.fenced = true; critical(); n.fenced = false })
			if err != nil {
				t.Error(err)
			}
			return nil
		}
		if pass() == nil {
			t.Error("the panic did not reach the caller")
		}
		if p := pass(); p != nil {
			t.Errorf("the next pass: %v", p)
		}
		n.did(t, "the other one is collected", "collect b")
		broken = false
		<-time.After(3 * time.Second) // the next pass, and not the next period: it is a veto like any other
		if p := pass(); p != nil {
			t.Errorf("the last pass: %v", p)
		}
		n.did(t, "then the first", "collect a")
		cancel()
		n.Wait()
	})
}

// patient is content whose folders do not go before their context ends.
type patient struct{ *node }

func (patient) RemovePodDir(ctx context.Context, _ types.UID) error {
	<-ctx.Done()
	return ctx.Err()
}
