package inventory

import (
	"context"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/internal/rule"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/runtime"
)

const (
	// maxAge is how long a list is kept while nothing changes.
	maxAge = time.Minute
	// sharedFor is how long it is kept while pods come and go: a burst of changes makes passes
	// follow each other closely, and a list costs the runtime a look at everything.
	sharedFor = time.Second
)

// Reader lists what is running; pleg.Generator is one.
type Reader interface {
	ListRunning(ctx context.Context) ([]*runtime.Pod, error)
	ChangedSince(version uint64) pleg.Changes
	Get(uid types.UID) (*runtime.PodStatus, error)
	Health() pleg.Health
}

// Inventory shows housekeeping the workers and what is running. Every field must be set before a
// pass. Only passes call its methods, and they do not overlap.
type Inventory struct {
	Pods
	Reader Reader
	// LastPlan returns what the previous pass did.
	LastPlan func() cleanup.Plan

	// now is what this pass sees, then what the pass that read the list saw.
	now, then snapshot
	list      []*runtime.Pod
	read      time.Time // when list was read; zero if there is none
}

// snapshot is what, together with the list, determines what a pass does.
type snapshot struct {
	desired []*v1.Pod // sorted by UID; a changed pod is another object
	workers map[types.UID]cleanup.Worker
	// version is that of the reader's cache.
	version uint64
}

// SyncKnownPods is the first thing a pass does, inside the fence.
func (i *Inventory) SyncKnownPods(desired []*v1.Pod) map[types.UID]cleanup.Worker {
	known := i.Pods.SyncKnownPods(desired)
	// The housekeeper adds to its map.
	i.now = snapshot{desired: desired, workers: maps.Clone(known), version: i.Reader.ChangedSince(i.then.version).Version}
	return known
}

// ListRunning returns what is running (HK5): from a new list, or from one of the last second
// without the pods that have stopped since.
func (i *Inventory) ListRunning(ctx context.Context) ([]*runtime.Pod, error) {
	switch usable := i.usable(); {
	case usable && i.unchanged():
		return i.list, nil
	case usable && i.Clock.Since(i.read) < sharedFor:
		return i.stillRunning(), nil
	}
	began := i.Clock.Now()
	list, err := i.Reader.ListRunning(ctx)
	if err != nil {
		i.read = time.Time{}
		return nil, err
	}
	i.list, i.read, i.then = list, began, i.now
	return list, nil
}

// usable reports whether decisions can still be based on the list.
func (i *Inventory) usable() bool {
	if age := i.Clock.Since(i.read); i.read.IsZero() || age < 0 || age >= maxAge {
		return false
	}
	if h := i.Reader.Health(); h.Err != nil || h.ListErr != nil || len(h.Hung) > 0 {
		return false // the cache may not show what a list would
	}
	return true
}

// unchanged reports whether everything else that determines a pass is as it was when the list was read.
func (i *Inventory) unchanged() bool {
	if i.now.version != i.then.version || !slices.Equal(i.now.desired, i.then.desired) || !maps.Equal(i.now.workers, i.then.workers) {
		return false
	}
	// What a living pod keeps (ND2) is no reason for another list. An action that was done, or was
	// delayed for any other reason, is one.
	return !slices.ContainsFunc(i.LastPlan().Actions, func(a cleanup.Action) bool {
		return a.Forbidden.Rule != rule.InUse
	})
}

// stillRunning returns the list without the pods that have stopped since.
func (i *Inventory) stillRunning() []*runtime.Pod {
	return slices.DeleteFunc(slices.Clone(i.list), func(p *runtime.Pod) bool {
		status, err := i.Reader.Get(p.UID)
		return err == nil && !status.Running()
	})
}
