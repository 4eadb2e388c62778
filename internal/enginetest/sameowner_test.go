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
