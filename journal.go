package podwright

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/checkpoint"
)

// causeTimeout is how long a termination waits for a disk that does not take its
// cause. A pod that has to stop has to stop; disks get full by pods that should.
const causeTimeout = time.Minute

// journal puts on the disk what cannot be read back from the runtime, before
// anybody acts on it (spec/cleanup.md 10). It stands between the rooms and the
// keeper of the records; each room sees the part of it that it asked for:
//
//	dispatcher ── sight ──────────────┐
//	workers ───── Record ─────────────┤
//	status ────── Changed, Durable ───┼──► checkpoint.Keeper
//	runtime/pods  beforeRemove ───────┤
//	podsync ───── starting ───────────┘
type journal struct {
	keeper *checkpoint.Keeper
	clock  clock.Clock
	logger logr.Logger
	// bootID names this boot of the machine.
	bootID string
	// end is how a container ended, once the cache has it.
	end func(ctx context.Context, uid types.UID, id runtime.ContainerID) (*runtime.ContainerStatus, error)

	mu sync.Mutex
	// met are the pods that this process has been handed, as they were last.
	met map[types.UID]*v1.Pod
	// waiting are pods whose worker could not go on because their record could not
	// be written.
	waiting map[types.UID]bool
}

var (
	_ podworkers.Journal = (*journal)(nil)
	_ status.Journal     = (*journal)(nil)
)

// meet notes the pod as it is desired now, and reports whether it is the first
// time in this process. Nothing is written for a pod that did not change.
func (j *journal) meet(pod *v1.Pod) (first bool) {
	j.mu.Lock()
	last, known := j.met[pod.UID]
	j.met[pod.UID] = pod
	j.mu.Unlock()
	if last == pod {
		return false
	}
	j.keeper.Ensure(pod.UID, func(r *checkpoint.Record) checkpoint.Class {
		class := checkpoint.Unchanged
		if wanted := stored(pod); r.Unwanted || r.Pod == nil || !reflect.DeepEqual(r.Pod, wanted) {
			r.Pod, r.Unwanted, class = wanted, false, checkpoint.Lazy
		}
		r.Namespace, r.Name, r.Generation = pod.Namespace, pod.Name, pod.Generation
		r.Source, r.ConfigHash = pod.Annotations[podinfo.AnnotationSource], pod.Annotations[podinfo.AnnotationHash]
		if r.Admission == nil {
			r.Admission, class = &checkpoint.Admission{At: j.clock.Now()}, checkpoint.Durable
		}
		return class
	})
	return !known
}

// stored is a pod as it is kept: what others fill in is left out.
func stored(pod *v1.Pod) *v1.Pod {
	p := *pod
	p.ManagedFields, p.Status = nil, v1.PodStatus{}
	return &p
}

// remember notes a pod that no source wants and the engine still has to do with.
func (j *journal) remember(pod *v1.Pod) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.met[pod.UID] = pod
}

// forget notes that the engine has nothing to do with a pod any more.
func (j *journal) forget(uid types.UID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.met, uid)
	delete(j.waiting, uid)
}

// knows reports whether this process was handed the pod.
func (j *journal) knows(uid types.UID) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.met[uid] != nil
}

// Record makes the facts of a pod's life durable: CK5 before the first setup, CK6
// before the first terminating call, CK4 after a phase has ended.
func (j *journal) Record(ctx context.Context, uid types.UID, f podworkers.Facts) error {
	j.mu.Lock()
	pod := j.met[uid]
	j.mu.Unlock()
	now := j.clock.Now()
	j.keeper.Ensure(uid, func(r *checkpoint.Record) checkpoint.Class { return noteFacts(r, pod, f, now) })
	err := j.keeper.Sync(ctx, uid)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return err
	case !f.TerminationRequested && pod != nil && podinfo.Static(pod) && podinfo.Critical(pod):
		// CK8: a node without its most important pods is worse off than one that
		// remembers nothing of them.
		j.logger.Error(err, "critical static pod runs without a checkpoint", "uid", uid)
		return nil
	case f.TerminationRequested && !f.Terminated && j.requestedFor(uid) >= causeTimeout:
		j.logger.Error(err, "pod is stopped without a checkpoint", "uid", uid)
		return nil
	}
	j.mu.Lock()
	j.waiting[uid] = true
	j.mu.Unlock()
	return err
}

// served returns the pod if its worker waits for its record, and forgets that it
// does.
func (j *journal) served(uid types.UID) *v1.Pod {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.waiting[uid] {
		return nil
	}
	delete(j.waiting, uid)
	return j.met[uid]
}

// requestedFor is how long ago the pod was asked to stop.
func (j *journal) requestedFor(uid types.UID) time.Duration {
	r := j.keeper.Get(uid)
	if r == nil || r.Termination == nil {
		return 0
	}
	return j.clock.Since(r.Termination.RequestedAt)
}

// noteFacts takes facts into a record.
func noteFacts(r *checkpoint.Record, pod *v1.Pod, f podworkers.Facts, now time.Time) checkpoint.Class {
	class := checkpoint.Unchanged
	if pod != nil && r.Name == "" {
		r.Namespace, r.Name, r.Pod = pod.Namespace, pod.Name, stored(pod)
		r.Source, r.ConfigHash = pod.Annotations[podinfo.AnnotationSource], pod.Annotations[podinfo.AnnotationHash]
	}
	if r.Admission == nil {
		r.Admission, class = &checkpoint.Admission{At: now}, checkpoint.Durable
	}
	if f.TerminationRequested {
		class = max(class, noteTermination(r, f, now))
	}
	if f.Terminated && r.TerminatedAt.IsZero() {
		// What has to survive of it, the ends of its containers, is written before
		// these are removed (CK3).
		r.TerminatedAt, class = now, max(class, checkpoint.Lazy)
	}
	if f.Finished && !r.Finished {
		r.Finished, class = true, checkpoint.Durable
	}
	return class
}

// noteTermination takes the cause and the grace of a termination into a record.
func noteTermination(r *checkpoint.Record, f podworkers.Facts, now time.Time) checkpoint.Class {
	before := r.Termination
	t := checkpoint.Termination{RequestedAt: now, Cause: checkpoint.CauseKilled}
	switch {
	case before != nil:
		t = *before
	case f.Evicted:
		t.Cause = checkpoint.CauseEvicted
	case f.Deleted:
		t.Cause = checkpoint.CauseDeleted
	case r.Terminal():
		t.Cause = checkpoint.CauseTerminal
	}
	t.Deleted, t.Evicted = t.Deleted || f.Deleted, t.Evicted || f.Evicted
	if g := f.GracePeriodSeconds; g > 0 && (t.GracePeriodSeconds == 0 || g < t.GracePeriodSeconds) {
		if before != nil && before.GracePeriodSeconds > 0 {
			// It shrank now: what is left is counted from here.
			t.RequestedAt = now
		}
		t.GracePeriodSeconds = g
	}
	switch {
	case before != nil && *before == t:
		return checkpoint.Unchanged
	case t.Cause == checkpoint.CauseTerminal && !t.Deleted && !t.Evicted && before != nil:
		return checkpoint.Lazy // nothing of it has to be stopped in time
	}
	r.Termination = &t
	return checkpoint.Durable
}

// Changed takes a new status. The end of a pod is its own reason to stop.
func (j *journal) Changed(pod *v1.Pod, s *v1.PodStatus, version uint64, finished bool) {
	now := j.clock.Now()
	change := func(r *checkpoint.Record) checkpoint.Class {
		class := r.Observe(s, version)
		if r.Terminal() && r.Termination == nil {
			r.Termination, class = &checkpoint.Termination{RequestedAt: now, Cause: checkpoint.CauseTerminal}, checkpoint.Durable
		}
		if finished && !r.Finished {
			r.Finished, class = true, checkpoint.Durable
		}
		return class
	}
	j.keeper.Update(pod.UID, change)
}

// Acknowledged takes what a sink has.
func (j *journal) Acknowledged(uid types.UID, sink string, target types.UID, version uint64) {
	j.keeper.Update(uid, func(r *checkpoint.Record) checkpoint.Class {
		ack := checkpoint.Ack{Sink: sink, Target: target, Version: version}
		if r.Acked(sink) == ack {
			return checkpoint.Unchanged
		}
		r.SetAck(ack)
		return checkpoint.Lazy
	})
}

// Durable reports whether the pod's terminal phase, or its being finished, is on
// the disk. A pod without a record waits for nothing.
func (j *journal) Durable(uid types.UID, finished bool) bool {
	r := j.keeper.Get(uid)
	if r == nil || j.keeper.ReadOnly(uid) {
		return true
	}
	disk := j.keeper.Stored(uid)
	return disk != nil && (disk.Terminal() || finished && !r.Terminal()) && (!finished || disk.Finished)
}

// starting makes sure that it is known, before it happens, that a container of the
// pod was started, if none must be started twice (CK5, HI8).
func (j *journal) starting(ctx context.Context, uid types.UID) error {
	r := j.keeper.Get(uid)
	if r == nil {
		return nil
	}
	once := r.Pod != nil && checkpoint.AtMostOnce(r.Pod)
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

// beforeRemove makes the end of a container durable before its record goes from
// the runtime, whoever removes it (CK3). Of a pod nobody has ever wanted nothing is
// remembered.
func (j *journal) beforeRemove(ctx context.Context, uid types.UID, name string, id runtime.ContainerID) error {
	c, err := j.end(ctx, uid, id)
	if err != nil {
		return err
	}
	if c == nil || c.State != runtime.Exited {
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
		if !news && disk != nil && newerThanKept(kept, id.String()) {
			return checkpoint.Unchanged
		}
		r.SetContainer(kept)
		return checkpoint.Durable
	})
	return j.keeper.Sync(ctx, uid)
}

// newerThanKept reports whether two ends newer than this run's are kept: then
// nobody asks for it any more.
func newerThanKept(c checkpoint.Container, id string) bool {
	for _, e := range c.Ends {
		if e.ID == id {
			return false
		}
	}
	return true
}

// Previous returns old, or, if containers of the pod were started and the runtime has
// nothing of it any more, what is known of how they ended (CK5).
func (j *journal) Previous(pod *v1.Pod, view *runtime.PodStatus, old *v1.PodStatus) *v1.PodStatus {
	if view == nil || len(view.Sandboxes)+len(view.Containers) > 0 || !checkpoint.AtMostOnce(pod) {
		return old
	}
	if r := j.keeper.Get(pod.UID); r == nil || r.StartedAt.IsZero() {
		return old
	}
	if old == nil {
		old = &pod.Status
	}
	return checkpoint.Interrupted(pod, old)
}

// buildJournal makes what remembers pods.
func (e *Engine) buildJournal(meter metric.Meter) {
	c := e.config
	j := &journal{
		clock: c.Clock, logger: c.Observe.Logger.WithName("checkpoint"), bootID: c.Node.BootID, end: e.endOf,
		met: map[types.UID]*v1.Pod{}, waiting: map[types.UID]bool{},
	}
	o := c.Checkpoints
	o.BootID, o.Clock, o.Logger, o.Meter, o.Written = c.Node.BootID, c.Clock, j.logger, meter, e.recordWritten
	j.keeper = checkpoint.NewKeeper(o)
	e.journal = j
}

// recordWritten lets go on what waited for a pod's record: its status, and its
// worker, whose own back-off may be minutes by now.
func (e *Engine) recordWritten(uid types.UID) {
	e.status.Persisted(uid)
	if pod := e.journal.served(uid); pod != nil {
		e.workers.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Sync, Pod: pod, StartTime: e.config.Clock.Now()})
	}
}
