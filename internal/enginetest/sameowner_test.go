package enginetest_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/source"
)

// TestSecondEngineOfAnOwnerEnds: spec/runtime.md 1.10 (RT5): if another engine with the same owner,
// but another folder, works on the same runtime, a new engine ends with an error that names it and
// stops nothing. Once the other engine has ended, the new one takes over the pods.
func TestSecondEngineOfAnOwnerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root := fake.New(fake.Options{}), t.TempDir()
		first := newRig(t, rt, root).start()
		first.set(newPod("a"))
		first.phase("uid-a", v1.PodRunning, time.Minute)

		second := newRig(t, rt, t.TempDir())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		var desired sync.WaitGroup
		desired.Go(func() { _ = second.source.Set(ctx, []*v1.Pod{newPod("b")}) })
		err := second.engine.Run(ctx)
		cancel()
		desired.Wait()
		if !errors.Is(err, podwright.ErrSameOwner) || !strings.Contains(err.Error(), root) || !strings.Contains(err.Error(), `"n1"`) {
			t.Errorf("Run: %v", err)
		}
		if n := rt.CallCount(fake.StopContainer) + rt.CallCount(fake.StopPodSandbox); n > 0 {
			t.Errorf("1.10: %d stops", n)
		}
		if n := rt.CallCount(fake.RunPodSandbox); n != 1 {
			t.Errorf("1.10: %d sandboxes were made, want that of the first engine", n)
		}
		first.stop()

		third := newRig(t, rt, t.TempDir()).start()
		third.set(newPod("b"))
		third.phase("uid-b", v1.PodRunning, time.Minute)
	})
}

// TestEngineThatNeverRanHasEnded: status.md WA1, R4. If Run fails before anything runs, those who watch the engine
// see its end, and it takes no more sources.
func TestEngineThatNeverRanHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root := fake.New(fake.Options{}), t.TempDir()
		newRig(t, rt, root).start()
		second := newRig(t, rt, root)
		soon, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		watch := func() {
			for change, err := range second.engine.Watch(soon) {
				t.Errorf("%+v, %v", change, err)
			}
			if soon.Err() != nil {
				t.Error("Watch does not end with Run")
			}
		}
		var watching sync.WaitGroup
		watching.Go(watch)
		synctest.Wait()
		if err := second.engine.Run(t.Context()); !errors.Is(err, podwright.ErrInUse) {
			t.Errorf("Run: %v", err)
		}
		watching.Wait()
		watch()
		late := source.NewChannel(source.ChannelOptions{Name: "late", NodeName: "n1"})
		if err := second.engine.AddSource(t.Context(), late); err == nil {
			t.Error("a source was added to an engine that has ended")
		}
	})
}

// Engines of different owners share a runtime, whatever their folders say.
func TestEnginesOfTwoOwnersRunSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		first := newRig(t, rt, t.TempDir()).start()
		first.set(newPod("a"))
		first.phase("uid-a", v1.PodRunning, time.Minute)
		second := newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.Node.OwnerID = "other" }).start()
		second.set(newPod("b"))
		second.phase("uid-b", v1.PodRunning, time.Minute)
		first.phase("uid-a", v1.PodRunning, time.Minute)
	})
}
