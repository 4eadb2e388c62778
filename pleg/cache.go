package pleg

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// cache holds the last status of every pod and knows how fresh each is. It has no goroutine and
// reads no clock. It holds its lock only for map operations, so readers never wait for a relist in
// progress (PI9).
type cache struct {
	mu      sync.RWMutex
	entries map[types.UID]*entry
	// global is T: every entry, and every absence of an entry, is at least this new, except for the
	// pods in outstanding (C1, C11). 0 before the first relist.
	global runtime.Stamp
	// outstanding holds the pods that a list showed changed or did not explain, and that have not
	// been read since, with the stamp of the latest such list.
	outstanding map[types.UID]runtime.Stamp
	waiters     map[types.UID][]*waiter
	// names holds the UIDs of the entries by the names of their pods, sorted.
	names map[types.NamespacedName][]types.UID

	// version counts changes of entries; removals remembers the latest ones
	// (C12).
	version  uint64
	removals []removal
	// forgotten is the version up to which removals are no longer remembered.
	forgotten uint64
}

// entry is what is known of one pod. Entries are replaced or extended under the
// lock of the cache; the status itself is immutable (C9).
type entry struct {
	// status is the last good status, nil before the first.
	status *runtime.PodStatus
	// err is why the last reading failed, nil if it succeeded (C6).
	err error
	// modified is the stamp of the reading behind status or err, observed that of the latest look
	// that found nothing new (C8).
	modified, observed runtime.Stamp
	version            uint64
}

type removal struct {
	uid     types.UID
	version uint64
}

// maxRemovals bounds the removals kept for changedSince.
const maxRemovals = 4096

// waiter is one call of getNewerThan. ready is closed under the lock once what is known of the pod
// is newer than after.
type waiter struct {
	after runtime.Stamp
	ready chan struct{}
}

func newCache() *cache {
	return &cache{
		entries:     map[types.UID]*entry{},
		outstanding: map[types.UID]runtime.Stamp{},
		waiters:     map[types.UID][]*waiter{},
		names:       map[types.NamespacedName][]types.UID{},
	}
}

// get returns the entry's last good status, nil before the first, and the error of the last
// reading. Without an entry it returns an empty status if a list has shown that there is no such
// pod, and [ErrNotRead] if that is not known (C2).
func (c *cache) get(uid types.UID) (*runtime.PodStatus, error) {
	c.mu.RLock()
	e := c.entries[uid]
	if e != nil {
		status, err := e.status, e.err
		c.mu.RUnlock()
		return status, err
	}
	t := c.global
	_, listed := c.outstanding[uid]
	c.mu.RUnlock()
	if t == 0 || listed {
		return nil, ErrNotRead
	}
	return &runtime.PodStatus{UID: uid, Stamp: t}, nil
}

// getNewerThan is get for an entry newer than after; it waits for one (C3, C4, C10). After a failed
// reading it returns only the error, because there is no status as fresh as requested.
func (c *cache) getNewerThan(ctx context.Context, uid types.UID, after runtime.Stamp) (*runtime.PodStatus, error) {
	c.mu.RLock()
	if c.newer(uid, after) {
		status, err := c.fresh(uid)
		c.mu.RUnlock()
		return status, err
	}
	c.mu.RUnlock()

	c.mu.Lock()
	if c.newer(uid, after) {
		defer c.mu.Unlock()
		return c.fresh(uid)
	}
	w := &waiter{after: after, ready: make(chan struct{})}
	c.waiters[uid] = append(c.waiters[uid], w)
	c.mu.Unlock()

	select {
	case <-w.ready:
		c.mu.RLock()
		defer c.mu.RUnlock()
		return c.fresh(uid)
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		if left := slices.DeleteFunc(c.waiters[uid], func(other *waiter) bool { return other == w }); len(left) > 0 {
			c.waiters[uid] = left
		} else {
			delete(c.waiters, uid)
		}
		return nil, context.Cause(ctx)
	}
}

// newer reports whether what is known of the pod is newer than after. Every
// comparison is strict (C3).
func (c *cache) newer(uid types.UID, after runtime.Stamp) bool {
	if e := c.entries[uid]; e != nil && (e.modified > after || e.observed > after) {
		return true
	}
	if c.global <= after {
		return false
	}
	_, open := c.outstanding[uid]
	return !open
}

// fresh returns the result of getNewerThan for a pod that is newer.
func (c *cache) fresh(uid types.UID) (*runtime.PodStatus, error) {
	e := c.entries[uid]
	switch {
	case e == nil:
		return &runtime.PodStatus{UID: uid, Stamp: c.global}, nil
	case e.err != nil:
		return nil, e.err
	default:
		return e.status, nil
	}
}

// set stores a reading: a status, or an error, which leaves the last good status in place. It
// refuses a reading that is not newer than what is known (C7).
func (c *cache) set(uid types.UID, status *runtime.PodStatus, err error, stamp runtime.Stamp) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if stamp == 0 || c.newer(uid, stamp-1) {
		return false
	}
	e := c.entries[uid]
	if e == nil {
		e = &entry{}
		c.entries[uid] = e
	}
	if err == nil {
		c.rename(uid, e.status, status)
		e.status = status
	}
	e.err, e.modified = err, stamp
	c.version++
	e.version = c.version
	c.endOutstanding(uid, stamp)
	c.wake(uid)
	return true
}

// setObserved records that a look at stamp found the entry still true (C8).
func (c *cache) setObserved(uid types.UID, stamp runtime.Stamp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[uid]
	if e == nil {
		e = &entry{status: &runtime.PodStatus{UID: uid, Stamp: stamp}}
		c.entries[uid] = e
	}
	e.observed = max(e.observed, stamp)
	c.endOutstanding(uid, stamp)
	c.wake(uid)
}

// relisted ends a relist of stamp t in one step: it removes the entries of pods that are gone,
// makes the pods in open outstanding and those in closed no longer outstanding, and sets T to t
// (R7, R12, C11, PI4, PI8).
func (c *cache) relisted(t runtime.Stamp, removed, open, closed []types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, uid := range removed {
		delete(c.outstanding, uid)
		e := c.entries[uid]
		if e == nil {
			continue
		}
		c.rename(uid, e.status, nil)
		delete(c.entries, uid)
		c.version++
		c.removals = append(c.removals, removal{uid, c.version})
	}
	if over := len(c.removals) - maxRemovals; over > 0 {
		c.forgotten = c.removals[over-1].version
		c.removals = slices.Delete(c.removals, 0, over)
	}
	for _, uid := range open {
		c.mark(uid, t)
	}
	for _, uid := range closed {
		delete(c.outstanding, uid)
	}
	c.global = max(c.global, t)
	for uid := range c.waiters {
		c.wake(uid)
	}
}

// endOutstanding ends the outstanding mark of a pod that was read at stamp, unless a later list has
// renewed it.
func (c *cache) endOutstanding(uid types.UID, stamp runtime.Stamp) {
	if since, open := c.outstanding[uid]; open && stamp >= since {
		delete(c.outstanding, uid)
	}
}

// wake releases those waiters of a pod whose condition now holds.
func (c *cache) wake(uid types.UID) {
	waiting := c.waiters[uid]
	if len(waiting) == 0 {
		return
	}
	left := waiting[:0]
	for _, w := range waiting {
		if c.newer(uid, w.after) {
			close(w.ready)
		} else {
			left = append(left, w)
		}
	}
	clear(waiting[len(left):])
	if len(left) == 0 {
		delete(c.waiters, uid)
		return
	}
	c.waiters[uid] = left
}

// open makes a pod outstanding outside a relist.
func (c *cache) open(uid types.UID, stamp runtime.Stamp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mark(uid, stamp)
}

// mark makes a pod outstanding since stamp. What T has already proved about the pod stays proved.
func (c *cache) mark(uid types.UID, stamp runtime.Stamp) {
	if _, open := c.outstanding[uid]; !open {
		if e := c.entries[uid]; e != nil {
			e.observed = max(e.observed, c.global)
		}
	}
	c.outstanding[uid] = max(c.outstanding[uid], stamp)
}

// isOutstanding reports whether the pod is waiting to be read.
func (c *cache) isOutstanding(uid types.UID) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	_, open := c.outstanding[uid]
	return open
}

// has reports whether the pod has an entry.
func (c *cache) has(uid types.UID) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.entries[uid] != nil
}

// Changes says what happened to the cached statuses after some version.
type Changes struct {
	// Version is the version to pass next time.
	Version uint64
	// UIDs are the pods whose entry was written or removed, in the order of their last change.
	UIDs []types.UID
	// Complete is false if removals may be missing, because too many pods were removed since then:
	// compare with everything you hold.
	Complete bool
}

// changedSince returns the pods whose entry changed after version (C12).
func (c *cache) changedSince(version uint64) Changes {
	c.mu.RLock()
	changes := Changes{Version: c.version, Complete: version == 0 || version >= c.forgotten}
	last := map[types.UID]uint64{}
	for _, r := range c.removals {
		if r.version > version {
			last[r.uid] = r.version
		}
	}
	for uid, e := range c.entries {
		if e.version > version {
			last[uid] = e.version
		}
	}
	c.mu.RUnlock()
	changes.UIDs = slices.Collect(maps.Keys(last))
	slices.SortFunc(changes.UIDs, func(a, b types.UID) int { return cmp.Compare(last[a], last[b]) })
	return changes
}
