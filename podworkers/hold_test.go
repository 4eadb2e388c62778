package podworkers_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
)

// TestRemovalHoldsItsUID (IN3): while a removal from a pod is under way, the pod's next life waits,
// says what for, and takes updates. Every other pod goes on. The workers ask the removal to stop.
func TestRemovalHoldsItsUID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		w := podworkers.New(logging(l), podworkers.Options{})
		run(t, w)
		held, release, ok := w.Hold(t.Context(), "a", "remove pod folder")
		again, releaseAgain, okAgain := w.Hold(t.Context(), "a", "remove cgroup")
		if !ok || !okAgain || held.Err() != nil || again.Err() != nil {
			t.Fatal("an unknown pod can be held, twice")
		}
		since := time.Now()
		w.UpdatePod(create(newPod("a")))
		for i := range 100 {
			w.UpdatePod(create(newPod(types.UID(fmt.Sprintf("other-%02d", i)))))
		}
		takes := 24 * time.Hour
		if raceDetector {
			takes = time.Hour
		}
		pass(takes)
		if got := l.take(); slices.Contains(got, "setup a create") || !slices.Contains(got, "setup other-99 create") {
			t.Errorf("calls: %v", got)
		}
		for _, ctx := range []context.Context{held, again} {
			if cause := context.Cause(ctx); cause == nil || !strings.Contains(cause.Error(), "wanted again") {
				t.Errorf("the removal is not asked to stop: %v", cause)
			}
		}
		e, _ := w.Explain("a")
		want := fmt.Sprintf("the removal of its previous life: remove pod folder, since %[1]s; remove cgroup, since %[1]s", since.Format(time.RFC3339))
		if e.WaitingFor != want {
			t.Errorf("waits for %q, want %q", e.WaitingFor, want)
		}
		if _, _, ok := w.Hold(t.Context(), "a", "remove logs"); ok {
			t.Error("a removal may begin while a life waits to start")
		}
		w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Update, Pod: newPod("a")})
		release()
		release() // has no effect on the other removal
		synctest.Wait()
		if got := l.take(); slices.Contains(got, "setup a update") {
			t.Errorf("one of two removals goes on: %v", got)
		}
		releaseAgain()
		synctest.Wait()
		if got := l.take(); !slices.Contains(got, "setup a update") {
			t.Errorf("calls after the removals: %v", got)
		}
	})
}

// TestLifeUnderWayKeepsItsContent (IN3): from the first update of a pod until none of its
// containers runs or will run, nothing of the pod can be removed.
func TestLifeUnderWayKeepsItsContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := podworkers.New(nil, podworkers.Options{})
		may := func() bool {
			_, release, ok := w.Hold(t.Context(), "a", "remove logs")
			release()
			return ok
		}
		w.UpdatePod(create(newPod("a")))
		if may() {
			t.Error("the pod waits for Run")
		}
		run(t, w)
		synctest.Wait()
		if may() {
			t.Error("the pod is set up")
		}
		w.UpdatePod(kill(newPod("a"), podworkers.KillOptions{}))
		synctest.Wait()
		if !may() {
			t.Error("the pod has ended")
		}
		w.SyncKnownPods(nil)
		if !may() {
			t.Error("the pod is forgotten")
		}
	})
}

// TestHeldPodStopsAndEnds (IN3): neither a pod that has to stop nor the end of the workers waits
// for a removal that hangs.
func TestHeldPodStopsAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		w := podworkers.New(logging(l), podworkers.Options{})
		stop := run(t, w)
		if _, _, ok := w.Hold(t.Context(), "a", "remove logs"); !ok {
			t.Fatal("no hold")
		}
		w.UpdatePod(create(newPod("a")))
		synctest.Wait()
		if err := w.KillPod(t.Context(), newPod("a"), podworkers.KillOptions{}); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if got := strings.Join(l.take(), ", "); got != "terminating a 30, terminated a" {
			t.Errorf("calls %s", got)
		}
		stop()
	})
}
