package pods_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// cutAfter is a context that ends once it has been asked this often.
type cutAfter struct {
	context.Context
	left int
}

func (c *cutAfter) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// finishing runs FinishRemovals until the test ends.
func finishing(t *testing.T, w *world) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.m.FinishRemovals(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestCutRemovalIsFinished (IN12): a removal that is cut off in a big volume has already taken
// the volume away from the pod, and the rest is removed without another call.
func TestCutRemovalIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		volume := filepath.Join(w.opts.RootDir, "pods", "u", "volumes", "kubernetes.io~empty-dir", "v")
		if err := os.MkdirAll(volume, 0o750); err != nil {
			t.Fatal(err)
		}
		for i := range 3000 {
			if err := os.WriteFile(filepath.Join(volume, fmt.Sprint(i)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.m.RemovePodDir(&cutAfter{t.Context(), 6}, "u"); !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v", err)
		}
		left := func() int {
			entries, err := os.ReadDir(filepath.Join(w.opts.RootDir, "pods.removed"))
			if err != nil {
				t.Fatal(err)
			}
			return len(entries)
		}
		if _, err := os.Stat(volume); !errors.Is(err, os.ErrNotExist) || left() != 1 {
			t.Errorf("%d trees are out of the way: %v", left(), err)
		}
		finishing(t, w)
		synctest.Wait()
		if left() != 0 {
			t.Error("the rest has not gone")
		}
		if err := w.m.RemovePodDir(t.Context(), "u"); err != nil {
			t.Error(err)
		}
	})
}

// failsOnce is a context that makes the work on a tree fail once, as a broken disk does.
type failsOnce struct {
	context.Context
	left int
}

func (f *failsOnce) Err() error {
	if f.left--; f.left == 0 {
		return unix.EIO
	}
	return nil
}

// TestFailedRemovalIsFinished (IN12): a removal that fails after it has taken a volume away from its
// pod is not forgotten.
func TestFailedRemovalIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		volume := filepath.Join(w.opts.RootDir, "pods", "u", "volumes", "kubernetes.io~empty-dir", "v")
		for i := range 1000 {
			if err := os.MkdirAll(filepath.Join(volume, fmt.Sprint(i)), 0o750); err != nil {
				t.Fatal(err)
			}
		}
		finishing(t, w)
		synctest.Wait()
		if err := w.m.RemovePodDir(&failsOnce{t.Context(), 7}, "u"); !errors.Is(err, unix.EIO) {
			t.Fatalf("error %v", err)
		}
		if _, err := os.Stat(volume); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("the volume is in its place: %v", err)
		}
		synctest.Wait()
		if left, err := os.ReadDir(filepath.Join(w.opts.RootDir, "pods.removed")); err != nil || len(left) != 0 {
			t.Errorf("left %v, %v", left, err)
		}
	})
}

// TestUnfinishedRemovalsAreTriedAgain (IN12): with pauses, while they fail.
func TestUnfinishedRemovalsAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		removed := filepath.Join(w.opts.RootDir, "pods.removed")
		if err := os.WriteFile(removed, nil, 0o600); err != nil { // no folder
			t.Fatal(err)
		}
		finishing(t, w)
		<-time.After(time.Second)
		if err := errors.Join(os.Remove(removed), os.MkdirAll(filepath.Join(removed, "x"), 0o750)); err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Second)
		synctest.Wait()
		if entries, err := os.ReadDir(removed); err != nil || len(entries) > 0 {
			t.Errorf("left %v, %v", entries, err)
		}
	})
}
