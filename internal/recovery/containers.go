package recovery

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/durable"
	"github.com/podwright/podwright/internal/restartpolicy"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/status/checkpoint"
)

// containersOf returns the IDs of the newest runs that the runtime may still have of a pod, nil once all have ended (spec/pleg.md R15).
func containersOf(r *checkpoint.Record) (ids []string) {
	if r.Finished || !r.TerminatedAt.IsZero() {
		return nil
	}
	for _, c := range r.Containers {
		if id, err := runtime.ParseContainerID(c.ID); err == nil && !id.IsZero() {
			ids = append(ids, id.ID)
		}
	}
	return ids
}

// Starting records that a container of the pod is about to be started. If none of its containers
// may run twice, that is on the disk when Starting returns (CK5, HI8).
func (j *Journal) Starting(ctx context.Context, uid types.UID) error {
	r := j.keeper.Get(uid)
	if r == nil {
		return nil
	}
	once := r.Pod != nil && restartpolicy.AtMostOnce(r.Pod)
	if r.StartedAt.IsZero() {
		now := j.clock.Now()
		j.keeper.Update(uid, func(r *checkpoint.Record) checkpoint.Class {
			r.StartedAt = now
			if once {
				return checkpoint.Durable
			}
			return checkpoint.Lazy
		})
	}
	if !once {
		return nil
	}
	if err := j.keeper.Sync(ctx, uid); err != nil {
		return fmt.Errorf("a container that must not run twice is not started: %w", err)
	}
	return nil
}

// Previous returns the status from which the pod's next status is generated: old, plus the ends
// that no status has shown yet (spec/status.md 9.4). If containers that must not run twice were
// started, and the view shows nothing of the pod (after a reboot, or because the runtime lost its
// data), it says how these containers ended (CK5).
func (j *Journal) Previous(pod *v1.Pod, view *runtime.PodStatus, old *v1.PodStatus) *v1.PodStatus {
	r := j.keeper.Get(pod.UID)
	if r == nil {
		return old
	}
	if old != nil && !restartpolicy.RestartsAll(&pod.Spec) { // otherwise ends are reported as those of the restart
		old = r.WithEnds(old)
	}
	if view == nil || len(view.Sandboxes)+len(view.Containers) > 0 || r.StartedAt.IsZero() || !restartpolicy.AtMostOnce(pod) {
		return old
	}
	if old == nil {
		old = &pod.Status
	}
	return checkpoint.Interrupted(pod, old)
}

// BeforeRemove makes the end of a container durable before its record is removed from the runtime,
// whatever removes it (CK3). Nothing is remembered of a pod that was never desired.
func (j *Journal) BeforeRemove(ctx context.Context, uid types.UID, name string, id runtime.ContainerID) error {
	if !timing.Ended(j.loaded) {
		return ErrNotLoaded
	}
	c, err := j.options.End(ctx, uid, id)
	if err != nil {
		return err
	}
	if c == nil || c.State != runtime.Exited || c.StartAborted() { // it never ran (HI8)
		return nil
	}
	if j.EarlierLife(uid) {
		return nil
	}
	disk := j.keeper.Stored(uid)
	if disk != nil {
		if end, ok := disk.EndOf(name, id.String()); ok && !end.Guess() {
			return nil
		}
	}
	j.keeper.Update(uid, func(r *checkpoint.Record) checkpoint.Class {
		kept, _ := r.Container(name)
		kept.Name = name
		news := kept.AddEnd(checkpoint.End{
			ID: id.String(), ExitCode: c.ExitCode, Reason: c.Reason, Message: c.Message,
			StartedAt: c.StartedAt, FinishedAt: c.FinishedAt, RestartCount: int32(c.RestartCount),
		})
		kept.RestartCount = max(kept.RestartCount, int32(c.RestartCount))
		if !news && disk != nil && !keepsEnd(kept, id.String()) {
			return checkpoint.Unchanged
		}
		r.SetContainer(kept)
		return checkpoint.Durable
	})
	err = j.keeper.Sync(ctx, uid)
	if durable.NoSpace(err) { // IN4: the container's log and layer may be what fills the disk
		j.keeper.Outrun(ctx, uid, err)
		return nil
	}
	return err
}

// NextRun returns the lowest possible restart count of the next container with this name: one more
// than that of the newest run whose end is known, and never less than was already reported.
func (j *Journal) NextRun(uid types.UID, name string) int {
	r := j.keeper.Get(uid)
	if r == nil {
		return 0
	}
	kept, _ := r.Container(name)
	next := kept.RestartCount
	for _, end := range kept.Ends {
		next = max(next, end.RestartCount+1)
	}
	return int(next)
}

// keepsEnd reports whether the end of a run is among those that are kept. If not, two newer ends
// are, and this one is never needed.
func keepsEnd(c checkpoint.Container, id string) bool {
	for _, e := range c.Ends {
		if e.ID == id {
			return true
		}
	}
	return false
}
