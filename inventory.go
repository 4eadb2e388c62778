package podwright

import (
	"context"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/internal/rule"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/runtime"
)

// maxInventoryAge is how long housekeeping lives without a list of its own.
const maxInventoryAge = time.Minute

// inventory shows the housekeeper what the workers know and what runs. A pass must
// not act on an old list, because that shows pods as they were before somebody
// took care of them (spec/cleanup.md 3.5). But most passes find everything as the
// pass before left it, and to find that out anew would cost an idle node more calls
// than all else. So a list is kept while it cannot make a difference: since before it
// was read no pod was added, changed or removed by the sources, the workers or the
// relists, and with it there was nothing to do. What it shows is then what the last
// relist showed, and the first relist that shows anything else ends it.
//
// Its methods are called by passes only, which do not overlap.
type inventory struct {
	knownPods
	pleg     *pleg.Generator
	lastPlan func() cleanup.Plan
	clock    clock.PassiveClock

	// now is what this pass sees, then what the pass saw that read the list.
	now, then snapshot
	list      []*runtime.Pod
	read      time.Time // when list was read; zero if there is none
}

// snapshot is what decides together with the list what a pass does.
type snapshot struct {
	desired []*v1.Pod // sorted by UID; a changed pod is another object
	workers map[types.UID]cleanup.Worker
	// version of pleg's cache.
	version uint64
}

func newInventory(known knownPods, reader *pleg.Generator, c clock.PassiveClock, lastPlan func() cleanup.Plan) *inventory {
	return &inventory{knownPods: known, pleg: reader, lastPlan: lastPlan, clock: c}
}

// SyncKnownPods is the first thing a pass does, inside the fence.
func (i *inventory) SyncKnownPods(desired []*v1.Pod) map[types.UID]cleanup.Worker {
	known := i.knownPods.SyncKnownPods(desired)
	// The housekeeper adds to its map.
	i.now = snapshot{desired: desired, workers: maps.Clone(known), version: i.pleg.ChangedSince(i.then.version).Version}
	return known
}

// ListRunning returns what runs.
func (i *inventory) ListRunning(ctx context.Context) ([]*runtime.Pod, error) {
	if i.current() {
		return i.list, nil
	}
	began := i.clock.Now()
	list, err := i.pleg.ListRunning(ctx)
	if err != nil {
		i.read = time.Time{}
		return nil, err
	}
	i.list, i.read, i.then = list, began, i.now
	return list, nil
}

// current reports whether the list need not be read again.
func (i *inventory) current() bool {
	if age := i.clock.Since(i.read); i.read.IsZero() || age < 0 || age >= maxInventoryAge {
		return false
	}
	if i.now.version != i.then.version || !slices.Equal(i.now.desired, i.then.desired) || !maps.Equal(i.now.workers, i.then.workers) {
		return false
	}
	if h := i.pleg.Health(); h.Err != nil || h.ListErr != nil || len(h.Hung) > 0 {
		return false // the cache may not show what lists would
	}
	// What a living pod keeps (ND2) is no reason for another look; what was done,
	// or put off for any other reason, is.
	return !slices.ContainsFunc(i.lastPlan().Actions, func(a cleanup.Action) bool {
		return a.Forbidden.Rule != rule.InUse
	})
}
