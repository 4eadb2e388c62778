package pleg

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podwright/podwright/runtime"
)

// TestMadeObjectsAreLost: R7, B14. The runtime has lost what a syncer has made before it was read, and has no proper answer for
// it. Once enough lists have lacked it, it counts as gone, as any other object does.
func TestMadeObjectsAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{Clock: hasty{}})
		b.relist()
		b.Hold("p")
		b.pod("p", "c")
		b.Made("p", "p/s0", "")
		b.Made("p", "p/c", "p/s0")
		b.relist() // nothing is read during a hold
		b.remove("p")
		b.fail(func(_ context.Context, method, id string) error {
			if id != "" && (method == "PodSandboxStatus" || method == "ContainerStatus") {
				return errors.New("unknown object")
			}
			return nil
		})
		for range 5 {
			b.relist() // without a reading, nothing is known of the objects
		}
		b.Release("p")
		for i := range 4 * (defaultConfirmVanished + 1) {
			b.relist()
			if _, err := b.Get("p"); err == nil && i < defaultConfirmVanished {
				t.Errorf("believed gone after list %d", i+1)
			}
		}
		if status, err := b.Get("p"); err != nil || len(statesOf(status)) > 0 {
			t.Errorf("%v, %v; want an empty status", status, err)
		}
		if b.pods["p"] != nil {
			t.Errorf("it has a record: %+v", b.Dump().Pods)
		}
		calls := b.statusCalls()
		b.relist()
		if got := b.statusCalls(); got != calls {
			t.Errorf("%d more readings", got-calls)
		}
	})
}

// TestOneMadeObjectIsLost: R7, B14. The same for one container of a pod that goes on, also if there is no answer; and if the
// runtime describes it after all.
func TestOneMadeObjectIsLost(t *testing.T) {
	lost := failing("ContainerStatus", "p/c", errors.New("unknown object"))
	for name, test := range map[string]struct {
		hook func(context.Context, string, string) error
		ends bool
	}{
		"no proper answer": {hook: lost},
		"no answer":        {hook: hanging("ContainerStatus", "p/c", false, nil)},
		"described again":  {hook: lost, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, Options{})
				b.pod("p", "a")
				b.relist()
				b.Hold("p")
				b.container("p", "c", sRunning)
				b.Made("p", "p/c", "p/s0")
				b.relist()
				b.hiding(func(id string) bool { return id == "p/c" })
				b.fail(test.hook)
				b.Release("p")
				var after runtime.Stamp
				for i := range 3 * (defaultConfirmVanished + 1) {
					if test.ends && i == defaultConfirmVanished {
						b.fail(nil)
					}
					after = b.Stamp()
					b.relist()
					pass(time.Second)
				}
				status, err := b.Get("p")
				if err != nil || len(status.Containers) == 0 || statusHas(status, "p/c") != test.ends || !b.isFresh("p", after) {
					t.Errorf("%q, %v; want c: %v", statesOf(status), err, test.ends)
				}
			})
		})
	}
}
