package probe

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// results is the store of one kind (section 6): the latest result of each container, and what is
// still to be announced. An announcement never waits for its consumer: a newer result of a
// container replaces a pending one, and containers are announced in the order of their first
// pending result.
type results struct {
	kind   Kind
	signal chan struct{} // one slot

	mu      sync.Mutex
	values  map[runtime.ContainerID]Result
	pending map[runtime.ContainerID]Announcement
	order   []runtime.ContainerID
}

func newResults(kind Kind) *results {
	return &results{
		kind: kind, signal: make(chan struct{}, 1),
		values: map[runtime.ContainerID]Result{}, pending: map[runtime.ContainerID]Announcement{},
	}
}

// get returns a container's result, and false if it has none.
func (r *results) get(id runtime.ContainerID) (Result, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.values[id]
	return v, ok
}

// set stores a result, announces it if it is new or different, and returns whether it is. A quiet
// result is not announced.
func (r *results) set(uid types.UID, id runtime.ContainerID, value Result, quiet bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old, ok := r.values[id]; ok && old == value {
		return false
	}
	r.values[id] = value
	if quiet {
		return true
	}
	if _, ok := r.pending[id]; !ok {
		r.order = append(r.order, id)
	}
	r.pending[id] = Announcement{UID: uid, ID: id, Kind: r.kind, Result: value}
	select {
	case r.signal <- struct{}{}:
	default:
	}
	return true
}

// remove forgets a container, including its pending announcement.
func (r *results) remove(id runtime.ContainerID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.values, id)
	delete(r.pending, id)
}

// next takes the announcement that has waited longest.
func (r *results) next() (Announcement, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.order) > 0 {
		id := r.order[0]
		r.order = r.order[1:]
		if a, ok := r.pending[id]; ok {
			delete(r.pending, id)
			return a, true
		}
	}
	r.order = nil
	return Announcement{}, false
}

// deliver hands announcements to a consumer until ctx ends.
func (r *results) deliver(ctx context.Context, to func(context.Context, Announcement)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.signal:
		}
		for a, ok := r.next(); ok && ctx.Err() == nil; a, ok = r.next() {
			to(ctx, a)
		}
	}
}
