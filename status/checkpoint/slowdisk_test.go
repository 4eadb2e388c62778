package checkpoint_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/status/checkpoint"
)

// CK6: a disk that takes 4 s for a sync answers, also if a batch removes and writes records: removing is one call of the
// store, and writing another one. A disk that answers neither is a problem after 10 s.
func TestSlowDiskIsNoProblem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sync time.Duration
		points := &checkpointtest.Points{FS: &checkpointtest.Disk{}, Before: func(op checkpointtest.Op) error {
			if strings.HasPrefix(op.Kind, "sync") {
				<-time.After(sync)
			}
			return nil
		}}
		k := checkpoint.NewKeeper(checkpoint.Options{Store: checkpoint.NewFiles(points), BootID: "boot", Reserve: -1})
		run(t, k)
		ensure(k, "gone", checkpoint.Durable)
		if err := k.Sync(t.Context(), "gone"); err != nil {
			t.Fatal(err)
		}
		batch := func(each time.Duration) {
			sync = each
			k.Delete("gone")
			ensure(k, "gone", checkpoint.Durable)
		}
		batch(4 * time.Second)
		for range 12 {
			<-time.After(time.Second)
			if synctest.Wait(); troubles(k) != nil {
				t.Error(troubles(k))
			}
		}
		batch(time.Minute)
		<-time.After(11 * time.Second)
		if err := troubles(k); err == nil || !strings.Contains(err.Error(), "answer a write") {
			t.Errorf("problems: %v", err)
		}
	})
}
