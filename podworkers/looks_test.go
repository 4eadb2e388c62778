package podworkers_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// brokenLooks panics at each look at what runs under a name, unless works says otherwise.
type brokenLooks struct {
	peekViews
	works func(name string) bool
}

func (b brokenLooks) RunningAs(_, name string) []*runtime.Pod {
	if b.works(name) {
		return nil
	}
	panic("RunningAs")
}

// lookWorkers runs workers with such views, and returns the count of the lines about failed looks.
func lookWorkers(t *testing.T, works func(name string) bool) (*podworkers.Workers, *atomic.Int64) {
	t.Helper()
	var l log
	v := brokenLooks{peekViews{newFakeViews()}, works}
	v.relist()
	failed := &atomic.Int64{}
	logger := funcr.New(func(_, args string) {
		if strings.Contains(args, "its name runs failed") {
			failed.Add(1)
		}
	}, funcr.Options{})
	w := podworkers.New(logging(&l), podworkers.Options{Views: v, Logger: logger})
	run(t, w)
	return w, failed
}

// TestTwoLivesLookAtOnce: L8, N6. The look of a life that was forgotten may hang until the next life of the UID looks
// too; then both may end at the same time.
func TestTwoLivesLookAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var looks atomic.Int64
		w, failed := lookWorkers(t, func(string) bool {
			if looks.Add(1) > 1 { // the first leaves an entry
				<-release
			}
			return false
		})
		w.UpdatePod(create(newStatic("a", "web")))
		synctest.Wait()
		for range 2 {
			w.SyncKnownPods(nil)
			go w.UpdatePod(create(newStatic("a", "web")))
			synctest.Wait()
		}
		if looks.Load() != 3 {
			t.Errorf("%d looks, want 3", looks.Load())
		}
		close(release)
		synctest.Wait()
		if failed.Load() != 1 {
			t.Errorf("%d lines about one failure", failed.Load())
		}
	})
}

// TestManyFailedLooksAreLoggedOnce: L8. However many pods fail, each failure is logged once in 30 s, also while looks of
// others work, and what was remembered of pods that are gone makes place.
func TestManyFailedLooksAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, failed := lookWorkers(t, func(name string) bool { return strings.HasPrefix(name, "good") })
		update := func(kind string, n int) {
			for i := range n {
				name := fmt.Sprint(kind, i)
				w.UpdatePod(create(newStatic(types.UID(name), name)))
			}
		}
		const many = 1100
		for round, kind := range []string{"bad", "worse"} {
			update(kind, many)
			for i := range 5 {
				pass(time.Second)
				update(fmt.Sprint("good", round, "-", i, "-"), 1)
			}
			synctest.Wait()
			if got := failed.Swap(0); got != many {
				t.Errorf("%s: %d lines about %d pods", kind, got, many)
			}
			w.SyncKnownPods(nil)
			pass(2 * time.Minute)
			failed.Store(0)
		}
	})
}
