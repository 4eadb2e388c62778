package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// errRunning: [Keeper.Run] was called a second time.
var errRunning = errors.New("checkpoint keeper: Run was called before")

// Keeper holds all records in memory and writes their changes to the store. Create one with
// [NewKeeper], call [Keeper.Load] once the store may be read, and call [Keeper.Run]: without it
// nothing is written. Methods are safe for concurrent use; only Load, Sync and Run block.
type Keeper struct {
	options Options
	metrics *metrics
	wake    chan struct{} // one slot: there is something to write

	mu      sync.Mutex
	running bool
	loaded  bool
	// early are the changes made before the records were loaded, oldest first.
	early   map[types.UID][]func(r *Record) Class
	entries map[types.UID]*entry
	// dirty holds the entries with anything unwritten.
	dirty map[types.UID]*entry
	// soonest is when the first of them is to be written, or earlier; zero: it has to be looked for.
	soonest time.Time
	bad     map[string]Bad // lasting troubles, by name
	fault   fault
	// loadedAt is when bad was found, wrote when the store last took a record, writing since when
	// its present call has lasted, and spent since when the space that should be set apart for it is
	// missing. Zero means never, or not now.
	loadedAt, wrote, writing, spent time.Time

	// Only the goroutine of Run uses what follows. lines are waiting to be logged.
	reserve reserve
	lines   chan func()
}

// entry is one pod. Guarded by Keeper.mu.
type entry struct {
	uid types.UID
	// record is nil once the pod was deleted; it is replaced, never changed.
	record *Record
	// disk is what the store has, nil if it has nothing.
	disk *Record
	// seq counts changes; durable is the number of the newest durable change, written the number up
	// to which the store has them.
	seq, durable, written uint64
	// since is when the oldest unwritten change was made.
	since time.Time
	// erase, if not 0, is the number of the change that began a new life: what the store has is of
	// the earlier life and is deleted first.
	erase uint64
	// urgent: a call is waiting, so the back-off is skipped.
	urgent bool
	// readOnly: the store will not take it.
	readOnly bool
	// failures counts failed attempts; err is the newest failure unless a later attempt succeeded.
	// The next attempt is at retry, and pause is the wait before it. tried, if not nil, is closed
	// after the next attempt.
	failures int
	err      error
	pause    time.Duration
	retry    time.Time
	tried    chan struct{}
}

// fault describes a store that fails to take or return records.
type fault struct {
	err   error // the newest; nil while all is well
	since time.Time
	count int64 // in all
}

// NewKeeper returns an empty keeper. It panics without a store, and with keys that
// [Options.CheckKeys] refuses.
func NewKeeper(options Options) *Keeper {
	if options.Store == nil {
		panic("checkpoint: Options.Store is required")
	}
	err := options.CheckKeys()
	if s, seals := options.Store.(sealer); err == nil && seals && len(options.Keys) > 0 {
		err = s.Seal(options.Keys, options.TrustPlain)
	}
	if err != nil {
		panic("checkpoint: Options." + err.Error())
	}
	options.setDefaults()
	k := &Keeper{
		options: options, wake: make(chan struct{}, 1),
		early: map[types.UID][]func(r *Record) Class{}, entries: map[types.UID]*entry{}, dirty: map[types.UID]*entry{}, bad: map[string]Bad{},
	}
	k.reserve.store, _ = options.Store.(reserver)
	k.metrics = newMetrics(&k.options)
	return k
}

// Get returns the record of a pod, or nil. The record is read-only.
func (k *Keeper) Get(uid types.UID) *Record {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.entries[uid]; e != nil {
		return e.record
	}
	return nil
}

// Stored returns the record of a pod as the store has it, or nil; what it has of a deleted record
// does not count.
func (k *Keeper) Stored(uid types.UID) *Record {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.entries[uid]; e != nil && e.erase == 0 {
		return e.disk
	}
	return nil
}

// All returns all records, sorted by UID. The records are read-only.
func (k *Keeper) All() []*Record {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]*Record, 0, len(k.entries))
	for _, e := range k.entries {
		if e.record != nil {
			out = append(out, e.record)
		}
	}
	slices.SortFunc(out, func(a, b *Record) int { return cmp.Compare(a.UID, b.UID) })
	return out
}

// Update lets change edit a clone of the pod's record, and keeps the result unless change returns
// [Unchanged]. The keeper sets BootID and WrittenAt; a change that itself sets another BootID, because the
// machine was restarted, leaves WrittenAt as it is. It does nothing for a pod without a record. change must be quick, must not call the
// keeper, and must replace what it changes; see [Record.Clone].
func (k *Keeper) Update(uid types.UID, change func(r *Record) Class) {
	k.change(uid, false, change)
}

// Ensure is Update for a pod that may have no record yet; change then gets an empty one.
func (k *Keeper) Ensure(uid types.UID, change func(r *Record) Class) {
	k.change(uid, true, change)
}

func (k *Keeper) change(uid types.UID, create bool, change func(r *Record) Class) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.entries[uid]
	if !k.loaded {
		k.early[uid] = append(k.early[uid], change)
	}
	if e == nil || e.record == nil {
		if !create {
			return
		}
		if e == nil {
			e = &entry{uid: uid}
		}
	}
	next := &Record{UID: uid}
	if e.record != nil {
		next = e.record.Clone()
	}
	class := change(next)
	if class == Unchanged {
		return
	}
	if e.record == nil || next.BootID == "" || next.BootID == e.record.BootID { // "": a record that replaces another one
		next.WrittenAt = k.options.Clock.Now()
	}
	next.UID, next.BootID = uid, k.options.BootID
	k.entries[uid] = e
	e.record = next
	k.touch(e, class == Durable)
}

// Delete removes the record of a pod (CK7). A later change to this UID begins a new life, and is
// written only once the old record is gone.
func (k *Keeper) Delete(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.early, uid)
	e := k.entries[uid]
	if e == nil || e.record == nil {
		return
	}
	e.record = nil
	k.touch(e, true)
	e.erase = e.seq
}

// touch marks an entry as changed. The lock is held.
func (k *Keeper) touch(e *entry, durable bool) {
	e.seq++
	if durable {
		e.durable = e.seq
	}
	if k.dirty[e.uid] == nil {
		e.since = k.options.Clock.Now()
		k.dirty[e.uid] = e
	}
	if at := k.wakeAt(e); at.Before(k.soonest) {
		k.soonest = at
	}
	k.notify()
}

// notify wakes Run.
func (k *Keeper) notify() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Sync returns once every durable change of the pod is on the disk, or with the error of the next
// attempt or of ctx. A pod whose record is of a newer version (CK2) does without a record: Sync
// returns nil for it.
func (k *Keeper) Sync(ctx context.Context, uid types.UID) error {
	k.mu.Lock()
	e := k.entries[uid]
	if e == nil {
		k.mu.Unlock()
		return nil
	}
	goal, failures := e.durable, e.failures
	for {
		switch {
		case e.written >= goal || e.readOnly:
			k.mu.Unlock()
			return nil
		case e.failures > failures:
			err := e.err
			k.mu.Unlock()
			return fmt.Errorf("the checkpoint cannot be written: %w", err)
		}
		if !e.urgent {
			e.urgent, k.soonest = true, time.Time{}
			k.notify()
		}
		if e.tried == nil {
			e.tried = make(chan struct{})
		}
		tried := e.tried
		k.mu.Unlock()
		select {
		case <-tried:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		k.mu.Lock()
	}
}
