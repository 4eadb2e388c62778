package recovery

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/durable"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/checkpoint"
)

// causeTimeout is how long a termination waits for a disk that fails to take its cause. A pod that
// has to stop must stop: it may be the one that fills the disk. hangTimeout is how long it waits for
// a disk that does not answer: a node that shuts down may have 30 s in all.
const (
	causeTimeout = time.Minute
	hangTimeout  = problem.RecordLimit
)

// JournalOptions configures a [Journal]. All fields are required unless they say otherwise; Logger is optional.
type JournalOptions struct {
	// Checkpoints configures the keeper of the records. The journal sets its Clock, Logger, BootID
	// and Written.
	Checkpoints checkpoint.Options
	// BootID names this boot of the machine; empty if that is not known.
	BootID string
	// End returns a container as it ended, with its message; nil if the runtime does
	// not have it. An error means that this is not known.
	End func(ctx context.Context, uid types.UID, id runtime.ContainerID) (*runtime.ContainerStatus, error)
	// Written is called after each write of a record. waiting is the pod if its worker could not
	// continue before, otherwise nil. It must not block.
	Written func(uid types.UID, waiting *v1.Pod)
	// Renewed is called when a source again wants a UID whose life was over: nothing known about
	// that life counts any more. It is called before the record is renewed. It must not block.
	Renewed func(uid types.UID)
	// Admitted returns the pods that a source delivers, with what an API server would have filled
	// in. If complete is false, something could not be found out: Admitted is called again after
	// some time, unless the source delivers something else first. It must neither block nor change
	// the pods it is given. Nil: nothing is filled in.
	Admitted func(pods []*v1.Pod) (admitted []*v1.Pod, complete bool)
	// StandInAfter is how long a source may stay silent, or fail, before its remembered pods run. 0 means 10 s.
	StandInAfter time.Duration
	Clock        clock.WithTickerAndDelayedExecution
	Logger       logr.Logger
}

// Journal records what cannot be read back from the runtime, before anything acts on it
// (spec/cleanup.md 10).
type Journal struct {
	keeper  *checkpoint.Keeper
	options JournalOptions
	bootID  string
	clock   clock.WithTickerAndDelayedExecution
	logger  logr.Logger

	// loaded is closed once the records are known, and what sources said before that is noted in them.
	loaded chan struct{}
	// sources is how many sources were wrapped.
	sources atomic.Int32

	mu sync.Mutex
	// handed holds the pods that this process was handed, in their latest form.
	handed map[types.UID]*v1.Pod
	// early holds those of them that the node told to stop before their source had named them.
	early map[types.UID]bool
	// retired holds the pods that have a record although their life is over, and since when.
	retired map[types.UID]time.Time
	// asking holds the runs whose restart is being recorded, with the number of calls waiting for that.
	asking map[types.UID]map[string]int
	// waiting holds the pods whose worker could not continue because their record could not be
	// written.
	waiting map[types.UID]bool
	// drained holds the pods whose life a drain has ended: their record, if they have one, is that of the next life.
	drained map[types.UID]bool
	// stuck is a pod whose record was waited for in vain. While the disk does not have it, others wait only a moment, until
	// waitAfter. Empty: none.
	stuck     types.UID
	waitAfter time.Time
	// judged holds the pods on which this process has given a verdict.
	judged map[types.UID]bool
	// said notes, by source, what that said last; it is for the time when the records are known.
	said map[string]func()
}

var (
	_ podworkers.Journal = (*Journal)(nil)
	_ status.Journal     = (*Journal)(nil)
)

// NewJournal returns a journal without records; [Recovery.Load] loads them.
func NewJournal(options JournalOptions) *Journal {
	j := &Journal{
		options: options, bootID: options.BootID, clock: options.Clock, logger: options.Logger,
		loaded: make(chan struct{}),
		handed: map[types.UID]*v1.Pod{}, early: map[types.UID]bool{}, retired: map[types.UID]time.Time{}, waiting: map[types.UID]bool{}, asking: map[types.UID]map[string]int{}, drained: map[types.UID]bool{}, judged: map[types.UID]bool{}, said: map[string]func(){},
	}
	o := options.Checkpoints
	o.BootID, o.Clock, o.Logger = options.BootID, options.Clock, options.Logger
	o.Written = func(uid types.UID) { options.Written(uid, j.resume(uid)) }
	j.keeper = checkpoint.NewKeeper(o)
	return j
}

// beforeLoaded keeps, until the records are known, how to note in them what a source has said, in place of what it said before. It
// returns false if they are known.
func (j *Journal) beforeLoaded(source string, note func()) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if timing.Ended(j.loaded) {
		return false
	}
	j.said[source] = note
	return true
}

// open lets everything happen that waits for the records, after what sources have said meanwhile is noted in them.
func (j *Journal) open() {
	for {
		j.mu.Lock()
		said := j.said
		j.said = map[string]func(){}
		if len(said) == 0 {
			close(j.loaded)
			j.mu.Unlock()
			return
		}
		j.mu.Unlock()
		for _, note := range said {
			note()
		}
	}
}

// Get returns the record of a pod, or nil. The record is read-only.
func (j *Journal) Get(uid types.UID) *checkpoint.Record { return j.keeper.Get(uid) }

// Dropped reports whether the source of a pod has answered without naming it, in this process or in
// an earlier one. A stop that an earlier process began counts too: it is never taken back, so a source
// that cannot be read now must not hold it up.
func (j *Journal) Dropped(uid types.UID) bool {
	r := j.keeper.Get(uid)
	return r != nil && (r.Unwanted || hadToStop(r))
}

// hadToStop reports whether the life on record has to stop because its source does not want it any
// more, or a drain did not get to its removal; not because it ended on its own or was evicted.
func hadToStop(r *checkpoint.Record) bool {
	return r.Termination != nil && !r.Terminal() && !r.Termination.Evicted
}

// Owner returns the pod on record and the name of its source, as long as its life is not over;
// otherwise nil and "".
func (j *Journal) Owner(uid types.UID) (pod *v1.Pod, source string) {
	r := j.keeper.Get(uid)
	if r == nil || j.isRetired(r) {
		return nil, ""
	}
	return r.Pod, r.Source
}

// Hidden returns the pods on record that may still be wanted: they have not ended, their source has
// not dropped them, and maybe returns true for them.
func (j *Journal) Hidden(maybe func(uid types.UID) bool) []*v1.Pod {
	var out []*v1.Pod
	for _, r := range j.keeper.All() {
		if r.Pod != nil && !r.Unwanted && !r.Terminal() && maybe(r.UID) {
			out = append(out, r.Pod)
		}
	}
	return out
}

// Problem returns what is wrong with the record of a pod on the disk, or nil.
func (j *Journal) Problem(uid types.UID) error { return j.keeper.Problem(uid) }

// Problems returns why records cannot be read or written, and what takes too long.
func (j *Journal) Problems() []problem.Problem { return j.keeper.Problems() }

// Desired records the pod as it is desired now, and reports whether this process gets it for the
// first time. Nothing is written for a pod that has not changed.
func (j *Journal) Desired(pod *v1.Pod) (first bool) {
	j.mu.Lock()
	last, known := j.handed[pod.UID]
	j.handed[pod.UID] = pod
	delete(j.early, pod.UID)
	j.mu.Unlock()
	if last == pod {
		return false
	}
	j.keeper.Ensure(pod.UID, func(r *checkpoint.Record) checkpoint.Class {
		keepAdmitted(r, pod)
		class := checkpoint.Unchanged
		if r.Unwanted || r.Pod == nil || !reflect.DeepEqual(unseen(r.Pod), unseen(stored(pod))) {
			class = checkpoint.Lazy
		}
		former := r.Pod
		ends := !known && hasNewName(r, pod)
		describe(r, pod)
		noteDeletion(r, pod)
		if ends { // in one write with the new name, or the agent after a kill -9 would take what runs for the new pod
			class = noteRename(r, former, j.clock.Now())
		}
		if r.Admission == nil && !podinfo.ShowsEnd(pod) { // otherwise it was not judged
			r.Admission, class = &checkpoint.Admission{At: j.clock.Now()}, checkpoint.Durable
		}
		if r.EarlierLife && !staysStopped(pod) {
			r.EarlierLife, class = false, max(class, checkpoint.Lazy)
		}
		return class
	})
	return !known
}

// describe copies the desired pod into its record.
func describe(r *checkpoint.Record, pod *v1.Pod) {
	r.Pod, r.Unwanted = stored(pod), false
	r.Namespace, r.Name, r.Generation = pod.Namespace, pod.Name, pod.Generation
	r.Source, r.ConfigHash = pod.Annotations[podinfo.AnnotationSource], pod.Annotations[podinfo.AnnotationHash]
}

// stored returns a pod as it is kept: without what others fill in, and unchanged if that is nothing.
func stored(pod *v1.Pod) *v1.Pod {
	if pod.ManagedFields == nil && reflect.ValueOf(&pod.Status).Elem().IsZero() {
		return pod
	}
	p := *pod
	p.ManagedFields, p.Status = nil, v1.PodStatus{}
	return &p
}

// unseen returns a pod without the time at which a process saw it first, which each process sets.
func unseen(pod *v1.Pod) *v1.Pod {
	p := *pod
	p.Annotations = maps.Clone(p.Annotations)
	delete(p.Annotations, podinfo.AnnotationSeen)
	return &p
}

// Adopt records a pod that no source wants and that has to be stopped.
func (j *Journal) Adopt(pod *v1.Pod) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.handed[pod.UID] == nil { // otherwise the pod that was handed over is newer
		j.handed[pod.UID] = pod
	}
}

// adoptEarly is Adopt for a pod that has to stop whatever its source says later, because the node does.
func (j *Journal) adoptEarly(pod *v1.Pod) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.handed[pod.UID] == nil {
		j.handed[pod.UID], j.early[pod.UID] = pod, true
	}
}

// Delete removes the record of a pod that is gone, or of an earlier life of its UID, and forgets
// that the pod was handed over.
func (j *Journal) Delete(uid types.UID) {
	j.keeper.Delete(uid)
	j.forget(uid)
}

// forget drops the memory that the pod was handed over.
func (j *Journal) forget(uid types.UID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.handed, uid)
	delete(j.early, uid)
	delete(j.retired, uid)
	delete(j.waiting, uid)
	delete(j.judged, uid)
}

// Handed reports whether this process was handed the pod.
func (j *Journal) Handed(uid types.UID) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.handed[uid] != nil
}

// Delivered reports whether this process got the pod from its source, or stopped it because no source
// wanted it.
func (j *Journal) Delivered(uid types.UID) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.handed[uid] != nil && !j.early[uid]
}

// Record makes the facts of a pod's life durable: CK5 before the first setup, CK6
// before the first terminating call, CK4 after a phase has ended.
func (j *Journal) Record(ctx context.Context, uid types.UID, f podworkers.Facts) error {
	if j.isDrained(uid) { // nothing of that life is left to remember
		return nil
	}
	j.mu.Lock()
	pod := j.handed[uid]
	j.mu.Unlock()
	now := j.clock.Now()
	j.keeper.Ensure(uid, func(r *checkpoint.Record) checkpoint.Class { return noteFacts(r, pod, f, now) })
	stops := f.TerminationRequested && !f.Terminated
	// CK8: a node without its most important pods is worse off than one that remembers nothing
	// about them.
	vital := !f.TerminationRequested && pod != nil && podinfo.Static(pod) && podinfo.Critical(pod)
	hangs, err := j.sync(ctx, uid, stops || vital)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return err
	case f.TerminationRequested && durable.NoSpace(err):
		// IN4: the pod's own data may be what fills the disk.
		j.keeper.Outrun(ctx, uid, err)
		return nil
	case vital:
		j.logger.Error(err, "Critical static pod runs without a checkpoint", "uid", uid)
		return nil
	case stops && (hangs || j.requestedFor(uid) >= causeTimeout):
		j.logger.Error(err, "Pod is stopped without a checkpoint", "uid", uid)
		return nil
	}
	j.mu.Lock()
	j.waiting[uid] = true
	j.mu.Unlock()
	return err
}

// sync waits until what was recorded of a pod is on the disk. What must happen all the same does not
// wait long for a disk that does not answer; then it hangs, and the record is written when it answers.
// Before the records are known, nothing must happen.
func (j *Journal) sync(ctx context.Context, uid types.UID, must bool) (hangs bool, err error) {
	if !must || !timing.Ended(j.loaded) {
		return false, j.keeper.Sync(ctx, uid)
	}
	limited, cancel := timing.WithTimeout(ctx, j.clock, j.patience(ctx, uid))
	defer cancel()
	err = j.keeper.Sync(limited, uid)
	if err == nil || limited.Err() == nil || ctx.Err() != nil {
		return false, err
	}
	after := j.clock.Now().Add(waitAgain)
	j.mu.Lock()
	j.stuck, j.waitAfter = uid, after
	j.mu.Unlock()
	return true, fmt.Errorf("the disk has not answered: %w", err)
}

// patience returns how long something that must happen waits for a disk that does not answer. While
// the disk still has not taken a record that was waited for, it is only a moment, so that not each
// group of a shutdown waits.
func (j *Journal) patience(ctx context.Context, uid types.UID) time.Duration {
	now := j.clock.Now()
	j.mu.Lock()
	stuck := j.stuck
	if !now.Before(j.waitAfter) {
		stuck = "" // it may be that record alone which cannot be written
	}
	j.mu.Unlock()
	switch {
	case stuck != "" && !j.written(ctx, stuck):
		return slowWait
	case j.requestedFor(uid) >= causeTimeout: // its calls may have been cut short
		return diskTimeout
	}
	return hangTimeout
}

// written reports, without waiting, whether the disk has what was recorded of a pod.
func (j *Journal) written(ctx context.Context, uid types.UID) bool {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	return j.keeper.Sync(ended, uid) == nil
}

// resume returns the pod if its worker waits for its record, and clears that.
func (j *Journal) resume(uid types.UID) *v1.Pod {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.waiting[uid] {
		return nil
	}
	delete(j.waiting, uid)
	return j.handed[uid]
}

// requestedFor returns how long ago the pod was asked to stop. If the clock was set back since, that
// was in an earlier process, so the cause is on the disk and nothing has to wait for it.
func (j *Journal) requestedFor(uid types.UID) time.Duration {
	r := j.keeper.Get(uid)
	if r == nil || r.Termination == nil {
		return 0
	}
	if passed := j.clock.Since(r.Termination.RequestedAt); passed >= 0 {
		return passed
	}
	return causeTimeout
}
