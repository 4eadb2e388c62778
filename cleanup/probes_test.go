package cleanup

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"
)

// keeper remembers whose probes were kept.
type keeper struct{ pods []types.UID }

func (k *keeper) CleanupPods(keep map[types.UID]struct{}) { k.pods = slices.Sorted(maps.Keys(keep)) }

// TestProbes: step 6 ends the probes of every pod whose containers cannot run, even if
// the runtime cannot be listed (HK4).
func TestProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k keeper
		n := newNode(t, func(o *Options) { o.CleanupProbes = k.CleanupPods })
		n.runsErr = errors.New("down")
		n.workers = map[types.UID]Worker{"a": {State: WorkerSync}, "b": {State: WorkerTerminating}, "c": {State: WorkerTerminated}}
		if _, err := n.Housekeep(t.Context(), func(critical func()) { n.fenced = true; critical(); n.fenced = false }); err == nil {
			t.Error("no error of the list")
		}
		if want := []types.UID{"a", "b"}; !slices.Equal(k.pods, want) {
			t.Errorf("kept %v, want %v", k.pods, want)
		}
	})
}
