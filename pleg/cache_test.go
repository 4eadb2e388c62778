package pleg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

func statusAt(uid types.UID, stamp runtime.Stamp) *runtime.PodStatus {
	return &runtime.PodStatus{UID: uid, Stamp: stamp}
}

// C1, C3, edge case 12: what is newer than a stamp, every comparison strict.
func TestNewerIsStrict(t *testing.T) {
	for _, tc := range []struct {
		name     string
		fill     func(*cache)
		newerFor runtime.Stamp // newest stamp for which the pod is newer, 0 = none
	}{
		{"nothing known", func(*cache) {}, 0},
		{"no entry, T", func(c *cache) { c.relisted(5, nil, nil, nil) }, 4},
		{"entry", func(c *cache) { c.set("p", statusAt("p", 5), nil, 5) }, 4},
		{"C6 error entry", func(c *cache) { c.set("p", nil, errors.New("boom"), 5) }, 4},
		{"C8 observed", func(c *cache) { c.set("p", statusAt("p", 5), nil, 5); c.setObserved("p", 9) }, 8},
		{"T over entry", func(c *cache) { c.set("p", statusAt("p", 5), nil, 5); c.relisted(7, nil, nil, nil) }, 6},
		{"C11 outstanding does not profit from T", func(c *cache) {
			c.set("p", statusAt("p", 5), nil, 5)
			c.relisted(7, nil, []types.UID{"p"}, nil)
		}, 4},
		{"C11 keeps what an earlier T proved", func(c *cache) {
			c.set("p", statusAt("p", 5), nil, 5)
			c.relisted(7, nil, nil, nil)
			c.relisted(9, nil, []types.UID{"p"}, nil)
		}, 6},
		{"C11 ends with the reading", func(c *cache) {
			c.relisted(7, nil, []types.UID{"p"}, nil)
			c.set("p", statusAt("p", 7), nil, 7)
		}, 6},
		{"C11 does not end with an older reading", func(c *cache) {
			c.relisted(7, nil, []types.UID{"p"}, nil)
			c.set("p", statusAt("p", 6), nil, 6)
		}, 5},
		{"C11 closed by a list", func(c *cache) {
			c.relisted(7, nil, []types.UID{"p"}, nil)
			c.relisted(9, nil, nil, []types.UID{"p"})
		}, 8},
		{"C5 removed", func(c *cache) {
			c.set("p", statusAt("p", 5), nil, 5)
			c.relisted(7, []types.UID{"p"}, nil, nil)
		}, 6},
		{"PI8 T does not go back", func(c *cache) { c.relisted(7, nil, nil, nil); c.relisted(3, nil, nil, nil) }, 6},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCache()
			tc.fill(c)
			for after := range runtime.Stamp(12) {
				want := tc.newerFor != 0 && after <= tc.newerFor
				if got := c.newer("p", after); got != want {
					t.Errorf("newer than %d: %v, want %v", after, got, want)
				}
			}
		})
	}
}

// C2, PI9: Get of a pod the runtime does not have is an empty status with the UID.
func TestUnknownPodHasAnEmptyStatus(t *testing.T) {
	c := newCache()
	c.relisted(1, nil, nil, nil)
	status, err := c.get("p")
	if err != nil || status.UID != "p" || len(status.Containers) != 0 {
		t.Errorf("get: %+v, %v", status, err)
	}
}

// C7: an older reading than what is known is refused.
func TestOlderReadingIsRefused(t *testing.T) {
	for _, tc := range []struct {
		name string
		fill func(*cache)
		at   runtime.Stamp
		want bool
	}{
		{"newer", func(c *cache) { c.set("p", statusAt("p", 5), nil, 5) }, 6, true},
		{"same", func(c *cache) { c.set("p", statusAt("p", 5), nil, 5) }, 5, false},
		{"older than entry", func(c *cache) { c.set("p", statusAt("p", 5), nil, 5) }, 4, false},
		{"older than observed", func(c *cache) { c.set("p", statusAt("p", 5), nil, 5); c.setObserved("p", 8) }, 7, false},
		{"older than T", func(c *cache) { c.set("p", statusAt("p", 5), nil, 5); c.relisted(8, nil, nil, nil) }, 7, false},
		{"older than T, outstanding", func(c *cache) {
			c.set("p", statusAt("p", 5), nil, 5)
			c.relisted(8, nil, []types.UID{"p"}, nil)
		}, 7, true},
		{"without a stamp", func(*cache) {}, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCache()
			tc.fill(c)
			if got := c.set("p", statusAt("p", tc.at), nil, tc.at); got != tc.want {
				t.Errorf("set at %d: %v, want %v", tc.at, got, tc.want)
			}
		})
	}
}

// C4, C6, edge cases 12, 13 and 14: which waiter is woken by what.
func TestReadingWakesTheWaitersItSatisfies(t *testing.T) {
	boom := errors.New("boom")
	for _, tc := range []struct {
		name  string
		event func(*cache)
		woken []runtime.Stamp // of waiters after 4, 5, 9
		err   error
	}{
		{"13 set wakes the satisfied one only", func(c *cache) { c.set("p", statusAt("p", 6), nil, 6) }, []runtime.Stamp{4, 5}, nil},
		{"12 equal is not newer", func(c *cache) { c.set("p", statusAt("p", 5), nil, 5) }, []runtime.Stamp{4}, nil},
		{"14 error", func(c *cache) { c.set("p", nil, boom, 10) }, []runtime.Stamp{4, 5, 9}, boom},
		{"C4 observed", func(c *cache) { c.setObserved("p", 6) }, []runtime.Stamp{4, 5}, nil},
		{"C4 T", func(c *cache) { c.relisted(10, nil, nil, nil) }, []runtime.Stamp{4, 5, 9}, nil},
		{"other pod", func(c *cache) { c.set("q", statusAt("q", 99), nil, 99) }, nil, nil},
		{"C5 removal with T", func(c *cache) { c.relisted(6, []types.UID{"p"}, nil, nil) }, []runtime.Stamp{4, 5}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCache()
				c.set("p", statusAt("p", 3), nil, 3)
				ctx, cancel := context.WithCancel(t.Context())
				var woken []runtime.Stamp
				results := make(chan runtime.Stamp, 3)
				for _, after := range []runtime.Stamp{4, 5, 9} {
					go func() {
						_, err := c.getNewerThan(ctx, "p", after)
						if ctx.Err() != nil {
							return
						}
						if !errors.Is(err, tc.err) {
							t.Errorf("waiter %d: %v, want %v", after, err, tc.err)
						}
						results <- after
					}()
				}
				synctest.Wait()
				tc.event(c)
				synctest.Wait()
				for len(results) > 0 {
					woken = append(woken, <-results)
				}
				slices.Sort(woken)
				if !slices.Equal(woken, tc.woken) {
					t.Errorf("woken %v, want %v", woken, tc.woken)
				}
				cancel()
				synctest.Wait()
				if len(c.waiters) != 0 {
					t.Errorf("%d pods still have waiters", len(c.waiters))
				}
			})
		})
	}
}

// C10, edge 12: a wait ends with its context, with the cause.
func TestWaitEndsWithItsContext(t *testing.T) {
	c := newCache()
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := c.getNewerThan(ctx, "p", 0); !errors.Is(err, why) {
		t.Errorf("getNewerThan: %v, want the cause", err)
	}
	if len(c.waiters) != 0 {
		t.Error("waiter left behind")
	}
}

// C12: what changed since a version, removals included.
func TestChangedSinceTellsRemovals(t *testing.T) {
	c := newCache()
	c.set("a", statusAt("a", 1), nil, 1)
	c.set("b", statusAt("b", 2), nil, 2)
	first := c.changedSince(0)
	if !slices.Equal(first.UIDs, []types.UID{"a", "b"}) || !first.Complete {
		t.Errorf("since 0: %+v", first)
	}
	c.setObserved("b", 3)
	if got := c.changedSince(first.Version); len(got.UIDs) != 0 {
		t.Errorf("an observation is not a change: %+v", got)
	}
	c.set("a", statusAt("a", 4), nil, 4)
	c.relisted(5, []types.UID{"b", "unknown"}, nil, nil)
	c.set("a", statusAt("a", 6), nil, 6)
	second := c.changedSince(first.Version)
	if !slices.Equal(second.UIDs, []types.UID{"b", "a"}) || !second.Complete {
		t.Errorf("since %d: %+v", first.Version, second)
	}
	for i := range maxRemovals + 1 {
		uid := types.UID(fmt.Sprint(i))
		stamp := runtime.Stamp(10 + 2*i)
		c.set(uid, statusAt(uid, stamp), nil, stamp)
		c.relisted(stamp+1, []types.UID{uid}, nil, nil)
	}
	if got := c.changedSince(second.Version); got.Complete {
		t.Error("more removals than are remembered, yet complete")
	}
}
