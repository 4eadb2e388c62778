package node

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
)

// TestCgroupsAreDestroyedOneByOne is cleanup.md 3.16: cgroups are destroyed beside the passes, each
// once however often it is asked for, a failure delays no other, and a pod that came
// back neither loses its cgroup nor is set up before a removal has ended.
func TestCgroupsAreDestroyedOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var destroyed []types.UID
		back := map[types.UID]bool{"back": true}
		r := NewCgroupRemover(func(ctx context.Context, uid types.UID) error {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			destroyed = append(destroyed, uid)
			if uid == "bad" {
				return errors.New("busy")
			}
			return nil
		}, func(uid types.UID) bool { return !back[uid] }, logr.Discard())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		for _, uid := range []types.UID{"bad", "bad", "back", "a", "a"} {
			r.Destroy(uid)
		}
		synctest.Wait()
		r.Destroy("bad") // in hand already
		begin := time.Now()
		if err := r.Await(t.Context(), "other"); err != nil || time.Since(begin) > 0 {
			t.Errorf("another pod waits: %v", err)
		}
		if err := r.Await(t.Context(), "bad"); err != nil || time.Since(begin) != time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		<-time.After(500 * time.Millisecond)
		short, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		if err := r.Await(short, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		<-time.After(10 * time.Second)
		synctest.Wait()
		if want := []types.UID{"bad", "a"}; !slices.Equal(destroyed, want) {
			t.Errorf("destroyed %v, want %v", destroyed, want)
		}
		r.Destroy("last")
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
