package checkpoint

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// Load takes over what the store has (spec/status.md 9.5). Call it until it succeeds, normally
// before any other method but Problems. A late Load overwrites nothing newer (IN16): changes made
// before it are applied again, to the loaded records. It returns the records that hold from then
// on.
func (k *Keeper) Load(ctx context.Context) (Loaded, error) {
	var loaded Loaded
	err := guarded("Load", func() (err error) {
		loaded, err = k.options.Store.Load(ctx)
		return err
	})
	if err != nil {
		k.mu.Lock()
		turn := k.fail(fmt.Errorf("load: %w", err))
		k.mu.Unlock()
		k.log(turn)
		return Loaded{}, err
	}
	for _, uid := range loaded.partial {
		k.options.Logger.Info("A checkpoint has results of a kind of probe that this version does not know: they are dropped", "uid", uid)
	}
	return k.take(loaded), nil
}

// take takes over what was loaded.
func (k *Keeper) take(loaded Loaded) Loaded {
	k.mu.Lock()
	defer k.mu.Unlock()
	first := !k.loaded
	k.fault.err, k.loaded, k.loadedAt = nil, true, k.options.Clock.Now()
	stale := map[types.UID]bool{}
	for _, uid := range loaded.stale {
		stale[uid] = true
	}
	var records []*Record
	for _, r := range loaded.Records {
		if first {
			k.takeOver(r)
		}
		e := k.entries[r.UID]
		if e != nil && stale[r.UID] {
			k.touch(e, false)
		}
		if e != nil && e.record != nil {
			records = append(records, e.record)
		}
	}
	loaded.Records = records
	clear(k.early)
	for _, b := range loaded.Bad {
		if b.Trouble != foreign {
			k.bad[b.Name] = b
		}
	}
	return loaded
}

// takeOver takes over one record of the store. The lock is held.
func (k *Keeper) takeOver(r *Record) {
	e := k.entries[r.UID]
	if e == nil {
		e = &entry{uid: r.UID, record: r, disk: r}
		k.entries[r.UID] = e
	} else {
		if e.disk == nil {
			e.disk = r
		}
		if e.record == nil {
			return // deleted since
		}
		e.record = r
	}
	next, durable, changed := r.Clone(), false, false
	for _, change := range k.early[r.UID] {
		class := change(next)
		durable, changed = durable || class == Durable, changed || class != Unchanged
	}
	if changed {
		// The caller sees of which boot it is, unless it was replaced.
		next.UID, next.BootID, next.WrittenAt = r.UID, cmp.Or(next.BootID, k.options.BootID), k.options.Clock.Now()
		e.record = next
		k.touch(e, durable)
	}
}
