package node

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/internal/rule"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/syncloop"
)

// GarbageCollector removes dead containers; [pods.Manager] is one.
type GarbageCollector interface {
	GarbageCollect(ctx context.Context, policy pods.GCPolicy) error
	PlanGarbageCollect(ctx context.Context, policy pods.GCPolicy) ([]pods.GCAction, error)
}

// Reaper removes a container as soon as it has ended, if it may; [pods.Reaper] is one.
type Reaper interface {
	Died(status *runtime.PodStatus, ids ...string)
}

// Views shows what the runtime has, as last read; [pleg.Generator] does.
type Views interface {
	Get(uid types.UID) (*runtime.PodStatus, error)
	ChangedSince(version uint64) pleg.Changes
}

// Removals says what may be removed of a pod; [podworkers.Workers] does.
type Removals interface {
	CouldHaveRunningContainers(uid types.UID) bool
	IsPodKnownTerminated(uid types.UID) bool
	ShouldPodBeFinished(uid types.UID) bool
	ShouldPodContentBeRemoved(uid types.UID) bool
	ShouldPodRuntimeBeRemoved(uid types.UID) bool
	Hold(ctx context.Context, uid types.UID, reason string) (held context.Context, release func(), ok bool)
}

// Keep says how many dead containers are kept. Its zero value is that of [pods.GCPolicy].
type Keep struct {
	// PerName is how many are kept per pod and container name, Total how many in all.
	PerName, Total int
	// MinAge keeps those that ended less than this long ago.
	MinAge time.Duration
}

// DeadContainers removes containers that have ended: those chosen by the policy in housekeeping
// passes, more when the disk is full, and some as soon as they end. Every field must be set before
// a method is called.
type DeadContainers struct {
	Collector GarbageCollector
	Reaper    Reaper
	Views     Views
	Removals  Removals
	Desired   Desired
	// Heard reports whether every source has named its pods. MaybeWanted protects a pod that a
	// source may still want but could not name.
	Heard       func() bool
	MaybeWanted func(uid types.UID) rule.Denial
	// Permit asks everything that may object to a removal outside of the passes (IN11).
	Permit  Permit
	Keep    Keep
	Records *PullRecords
	Clock   clock.Clock
}

// Permit returns the rule that forbids a removal now, zero if there is none;
// [cleanup.Housekeeper.Permit] is one.
type Permit func(cleanup.Action) rule.Denial

// await is Permit, but waits while only the removal rate forbids the action, and for 10 s while the
// host has not answered (IN6).
func (p Permit) await(ctx context.Context, c clock.Clock, a cleanup.Action) rule.Denial {
	for began := c.Now(); ; {
		denial := p(a)
		if denial.Rule != rule.RateLimited && (denial.Rule != rule.TryLater || c.Since(began) >= problem.FunctionLimit) {
			return denial
		}
		timer := c.NewTimer(ratePause)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return denial
		}
	}
}

// inTurn returns a Permit that is asked about one action after the other, so that callers at the same time
// keep to the rate together.
func (p Permit) inTurn() Permit {
	turn := make(chan struct{}, 1)
	return func(a cleanup.Action) rule.Denial {
		turn <- struct{}{}
		defer func() { <-turn }()
		return p(a)
	}
}

// ratePause is the time between two checks whether the removal rate has room.
const ratePause = 100 * time.Millisecond

var _ cleanup.Collector = (*DeadContainers)(nil)

// ContentGoes reports whether nothing of a pod is needed any more. This is not known for a pod that
// a source may still want but could not name (ND2). A desired pod keeps its content unless its API
// says that it was evicted: then the content goes as soon as the pod has stopped, because the pod
// never runs again and was evicted to free that space. A pod that is evicted here keeps its content
// until it has ended.
func (d *DeadContainers) ContentGoes(uid types.UID) bool {
	if !d.Heard() || !d.MaybeWanted(uid).IsZero() {
		return false
	}
	if pod, desired := d.Desired.Get(uid); desired {
		return syncloop.IsEvicted(&pod.Status) && d.Removals.IsPodKnownTerminated(uid)
	}
	return d.ContainersGo(uid)
}

// ContainersGo reports whether the containers of a pod may be removed. Those of an evicted pod may
// be removed before the source drops it, but not while the pod is still stopping: the status that
// says how they ended is made from them once all have ended (PE4).
func (d *DeadContainers) ContainersGo(uid types.UID) bool {
	return d.Removals.ShouldPodContentBeRemoved(uid) && !d.Removals.CouldHaveRunningContainers(uid)
}

// Running returns the pods as last read, for log rotation, without a runtime call.
func (d *DeadContainers) Running(context.Context) ([]*runtime.PodStatus, error) {
	return lastRead(d.Views), nil
}

// lastRead returns all pods of the runtime. If one could not be read lately, the earlier reading counts.
func lastRead(v Views) (out []*runtime.PodStatus) {
	for _, uid := range v.ChangedSince(0).UIDs {
		if status, _ := v.Get(uid); status != nil {
			out = append(out, status)
		}
	}
	return out
}

// Evicted makes the reaper look at everything that has ended in a pod whose API says that it was
// evicted (spec/syncloop.md 10, edge case 29).
func (d *DeadContainers) Evicted(pod *v1.Pod) {
	d.Died(pleg.PodEvents{UID: pod.UID, AllDied: true})
}

// Died makes the reaper look at a pod in which something died (spec/syncloop.md PE2).
func (d *DeadContainers) Died(events pleg.PodEvents) {
	status, err := d.Views.Get(events.UID)
	if err != nil || status == nil {
		return // the next collection finds it
	}
	ids := events.Died
	if events.AllDied {
		ids = nil
		for _, c := range status.Containers {
			if c.State == runtime.Exited {
				ids = append(ids, c.ID.ID)
			}
		}
	}
	d.Reaper.Died(status, ids...)
}

// Reclaim frees disk space without stopping a pod: it also removes what a continuing pod could
// still show of its earlier containers. Each removal waits for its share of the rate, because the
// space it frees may save a pod. Before every source has been heard, it is not known whose
// containers they are: the next eviction pass asks again.
func (d *DeadContainers) Reclaim(ctx context.Context) error {
	if !d.Heard() {
		return nil
	}
	return d.Collector.GarbageCollect(ctx, pods.GCPolicy{
		SourcesReady: d.Heard(), Pressure: true, NeverRan: d.neverRan, Hold: d.Removals.Hold,
		ContentShouldBeRemoved: d.ContentGoes, RuntimeShouldBeRemoved: d.runtimeGoes,
		Permits: func(a pods.GCAction) bool { return d.Permit.await(ctx, d.Clock, gcAction(a)).IsZero() },
	})
}

// runtimeGoes reports whether a pod has ended, so that its containers may be removed when the disk
// is full. A pod without a worker may be one that a source has not named yet (ND2).
func (d *DeadContainers) runtimeGoes(uid types.UID) bool {
	return d.Removals.IsPodKnownTerminated(uid) || d.MaybeWanted(uid).IsZero() && d.Removals.ShouldPodRuntimeBeRemoved(uid)
}

// Plan says what a collection would do.
func (d *DeadContainers) Plan(ctx context.Context, contentGoes func(types.UID) bool) ([]cleanup.Action, error) {
	list, err := d.Collector.PlanGarbageCollect(ctx, d.policy(contentGoes))
	var out []cleanup.Action
	for _, a := range list {
		// A ready sandbox is not a candidate.
		if !a.Sandbox || a.Kept.Rule != rule.SandboxReady {
			out = append(out, gcAction(a))
		}
	}
	return out, err
}

// Collect removes the dead containers that the policy does not keep.
func (d *DeadContainers) Collect(
	ctx context.Context, contentGoes func(types.UID) bool, permits func(cleanup.Action) bool, done func(cleanup.Action, error),
) error {
	policy := d.policy(contentGoes)
	policy.Permits = func(a pods.GCAction) bool { return permits(gcAction(a)) }
	policy.Done = func(a pods.GCAction, err error) { done(gcAction(a), err) }
	err := d.Collector.GarbageCollect(ctx, policy)
	return errors.Join(err, d.Records.Prune(ctx))
}

func (d *DeadContainers) policy(contentGoes func(types.UID) bool) pods.GCPolicy {
	return pods.GCPolicy{
		MinAge: d.Keep.MinAge, FinishedAt: d.finishedAt, NeverRan: d.neverRan,
		MaxPerContainer: d.Keep.PerName, MaxContainers: d.Keep.Total,
		SourcesReady: d.Heard(), Hold: d.Removals.Hold,
		ContentShouldBeRemoved: func(uid types.UID) bool { return contentGoes(uid) || d.endedWithContent(uid) },
	}
}

// endedWithContent reports whether a pod has finished and should keep nothing, for example because
// it was evicted. Its last step leaves the containers if the status made from them is dropped
// (IN5), and housekeeping spares pods that are still desired.
func (d *DeadContainers) endedWithContent(uid types.UID) bool {
	return d.Heard() && d.MaybeWanted(uid).IsZero() && d.Removals.IsPodKnownTerminated(uid) &&
		d.Removals.ShouldPodBeFinished(uid) && d.Removals.ShouldPodContentBeRemoved(uid)
}

// finishedAt returns when a container ended, zero if that was not read.
func (d *DeadContainers) finishedAt(uid types.UID, id runtime.ContainerID) time.Time {
	if c := d.seen(uid, id); c != nil {
		return c.FinishedAt
	}
	return time.Time{}
}

// neverRan reports whether a container's start was aborted.
func (d *DeadContainers) neverRan(uid types.UID, id runtime.ContainerID) bool {
	c := d.seen(uid, id)
	return c != nil && c.StartAborted()
}

// seen returns what was last read of a container, nil if nothing was.
func (d *DeadContainers) seen(uid types.UID, id runtime.ContainerID) *runtime.ContainerStatus {
	status, err := d.Views.Get(uid)
	if err != nil || status == nil {
		return nil
	}
	for _, c := range status.Containers {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// gcAction turns the choice about a container or sandbox into an action of a plan.
func gcAction(a pods.GCAction) cleanup.Action {
	out := cleanup.Action{
		Step: cleanup.StepContainers, PodUID: a.PodUID, Object: cleanup.Object{Namespace: a.Namespace, Name: a.Pod, Container: a.Container, ID: a.ID},
		Reason: a.Reason, Forbidden: a.Kept, Age: metav1.Duration{Duration: a.Age.Truncate(time.Second)},
	}
	if a.Sandbox {
		out.Step = cleanup.StepSandboxes
	}
	if out.Reason == "" {
		out.Reason = "it does not run"
	}
	return out
}
