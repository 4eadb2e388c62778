package recovery

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/restarts"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/status/checkpoint"
)

// Asked returns the requested restarts of a pod that are on the disk, nil if there are none.
func (j *Journal) Asked(uid types.UID) *restarts.Asked {
	r := j.keeper.Get(uid)
	if r == nil || r.Restarts == nil {
		return nil
	}
	asked := r.Restarts
	if !asked.Pending() {
		return asked
	}
	j.mu.Lock()
	unwritten := maps.Clone(j.asking[uid])
	j.mu.Unlock()
	if len(unwritten) == 0 {
		return asked
	}
	return asked.Without(func(r restarts.Run) bool { return unwritten[r.ID] > 0 })
}

// AskRestart records that these runs of a pod should be replaced (OC2). When it returns nil, that is on
// the disk and the runs are among those of [Journal.Asked]; after an error, nothing was requested.
func (j *Journal) AskRestart(ctx context.Context, uid types.UID, runs []restarts.Run, message string) error {
	fresh := j.beginAsking(uid, runs)
	if len(fresh) == 0 { // all of it is in progress
		return nil
	}
	now, found := j.clock.Now(), false
	j.keeper.Update(uid, func(r *checkpoint.Record) checkpoint.Class {
		r.Restarts, found = r.Restarts.With(fresh, message, now), true
		return checkpoint.Durable
	})
	err := j.keeper.Sync(ctx, uid)
	if err == nil && (!found || j.keeper.ReadOnly(uid)) {
		err = fmt.Errorf("the pod has no record that this version can write: %w", runtime.ErrFailedPrecondition)
	}
	j.endAsking(uid, fresh, err == nil)
	if err != nil {
		return fmt.Errorf("record its restart request: %w", err)
	}
	return nil
}

// beginAsking returns the runs whose restart is not recorded yet.
func (j *Journal) beginAsking(uid types.UID, runs []restarts.Run) (fresh []restarts.Run) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var known *restarts.Asked
	if r := j.keeper.Get(uid); r != nil {
		known = r.Restarts
	}
	asking := j.asking[uid]
	if asking == nil {
		asking = map[string]int{}
		j.asking[uid] = asking
	}
	for _, r := range runs {
		if asking[r.ID] > 0 || !known.RequestedID(r.ID) {
			asking[r.ID]++
			fresh = append(fresh, r)
		}
	}
	if len(asking) == 0 {
		delete(j.asking, uid)
	}
	return fresh
}

// endAsking makes the recorded runs count, or takes back those that no other call has recorded or
// is still trying to record.
func (j *Journal) endAsking(uid types.UID, runs []restarts.Run, written bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	asking, taken := j.asking[uid], map[string]bool{}
	for _, r := range runs {
		switch n := asking[r.ID]; {
		case n == 0: // another call has recorded it
		case written:
			delete(asking, r.ID)
		case n > 1:
			asking[r.ID]--
		default:
			delete(asking, r.ID)
			taken[r.ID] = true
		}
	}
	if len(asking) == 0 {
		delete(j.asking, uid)
	}
	if len(taken) == 0 {
		return
	}
	j.keeper.Update(uid, func(r *checkpoint.Record) checkpoint.Class {
		r.Restarts = r.Restarts.Without(func(run restarts.Run) bool { return taken[run.ID] })
		return checkpoint.Durable
	})
}

// ReplaceOwn records the runs that are stopped in order to be started again, for a reason of the
// engine's own (spec/runtime.md 6.12). New ones are on the disk when it returns, if the disk takes
// them: a failed probe is acted on with a disk that is full or hangs, too, and then only this
// process remembers.
func (j *Journal) ReplaceOwn(ctx context.Context, uid types.UID, next *restarts.Asked) {
	var own []restarts.Run
	if next != nil {
		own = next.Own
	}
	more := false
	j.keeper.Update(uid, func(r *checkpoint.Record) checkpoint.Class {
		before := r.Restarts
		r.Restarts = before.WithOwn(own)
		more = slices.ContainsFunc(own, func(run restarts.Run) bool { return before == nil || !slices.Contains(before.Own, run) })
		switch {
		case r.Restarts == before:
			return checkpoint.Unchanged
		case more:
			return checkpoint.Durable
		}
		return checkpoint.Lazy
	})
	if !more {
		return
	}
	limited, cancel := timing.WithTimeout(ctx, j.clock, diskTimeout)
	defer cancel()
	if err := j.keeper.Sync(limited, uid); err != nil && ctx.Err() == nil {
		j.logger.Error(err, "A container is stopped in order to be started again, without a checkpoint", "uid", uid)
	}
}

// Restarted takes what the runtime shows of a pod, and returns the restarts that are left to do;
// nil if none was ever requested.
func (j *Journal) Restarted(pod *v1.Pod, view *runtime.PodStatus) *restarts.Asked {
	asked := j.Asked(pod.UID)
	if !asked.Pending() || asked.After(pod, view) == asked {
		return asked
	}
	j.keeper.Update(pod.UID, func(r *checkpoint.Record) checkpoint.Class {
		next := r.Restarts.After(pod, view)
		if next == r.Restarts {
			return checkpoint.Unchanged
		}
		r.Restarts = next
		return checkpoint.Lazy
	})
	return j.Asked(pod.UID)
}
