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

		secondRoot := t.TempDir()
		second := newRig(t, rt, secondRoot)
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
		// As the error says, it runs with another owner.
		moved := newRig(t, rt, secondRoot, func(c *podwright.Config) { c.Node.OwnerID = "other" }).start()
		moved.set(newPod("c"))
		moved.phase("uid-c", v1.PodRunning, time.Minute)
		first.stop()

		// The folder with the pods of n1 is for no other owner (1.11).
		if err := newRig(t, rt, root, func(c *podwright.Config) { c.Node.OwnerID = "other" }).engine.Run(t.Context()); !errors.Is(err, podwright.ErrOtherOwner) {
			t.Errorf("1.11: Run: %v", err)
		}

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

// TestPodsKeepTheirOwner: spec/runtime.md 1.11. A node that has another name after a restart keeps its pods, which run on. An engine
// with another OwnerID on the same folder ends with an error and touches nothing.
func TestPodsKeepTheirOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root := fake.New(fake.Options{}), t.TempDir()
		renamed := func(c *podwright.Config) { c.Node.Name = "site7" }
		first := newRig(t, rt, root).start()
		first.set(newPod("a"))
		first.phase("uid-a", v1.PodRunning, time.Minute)
		first.stop()

		second := newRig(t, rt, root, renamed).start()
		second.set(newPod("a"))
		second.phase("uid-a", v1.PodRunning, time.Minute)
		<-time.After(5 * time.Minute)
		if n := rt.CallCount(fake.RunPodSandbox); n != 1 || starts(rt, "uid-a") != 1 {
			t.Errorf("%d sandboxes, %d starts", n, starts(rt, "uid-a"))
		}
		second.stop()

		calls := rt.CallCount(fake.ListPodSandbox)
		other := newRig(t, rt, root, func(c *podwright.Config) { c.Node.OwnerID = "other" })
		if err := other.engine.Run(t.Context()); err == nil || !strings.Contains(err.Error(), `"other"`) || !strings.Contains(err.Error(), `"n1"`) {
			t.Errorf("Run: %v", err)
		}
		if n := rt.CallCount(fake.ListPodSandbox); n != calls {
			t.Error("it has asked the runtime")
		}

		last := newRig(t, rt, root, renamed).start()
		last.set()
		last.within(time.Minute, "the end of the pod", func() error {
			if n := rt.Running("uid-a", "main"); n != 0 {
				return unmet(func() string { return last.explain("uid-a") })
			}
			return nil
		})
	})
}
