package podworkers

import (
	"context"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// PodSyncer does the work of one pod in each phase of its life (spec/podworkers.md 13).
//
// The workers call it from one goroutine per call in flight: never twice at
// once for one UID, concurrently for different UIDs. Calls may block; they must
// return soon after their context ends. [context.Cause] says why it ended: a
// [Cause].
//
// Pods and views are shared: a syncer must not modify them, but may keep
// them. An error is retried with back-off; the workers write no event for it. An
// error may wrap [ErrNetworkNotReady], or implement
//
//	interface{ RetryAt() time.Time }
//
// to say when the next attempt is due (the earliest in the error tree counts, a zero
// time is none; an attempt is made each [Options.SyncFrequency] until then), or
//
//	interface{ RetryWithin() time.Duration }
//
// to bound the back-off (the smallest positive bound counts): the pod waits for something that may
// come at any time. If both occur, the next attempt comes at whichever is earlier. A bound of
// math.MaxInt64 is no wait: the error only asks for the plain back-off beside the moments that others name.
type PodSyncer interface {
	// SyncPod makes the containers match the spec as far as possible now. It
	// must be re-entrant and converge. Terminal may be set only if the pod's
	// phase is Succeeded or Failed and published: the pod is then terminated
	// and SyncPod is never called again in this life. updateType is for
	// metrics only. mirrorPod is nil unless the pod is static and has one.
	// view is nil if the workers have no [StatusSource].
	SyncPod(ctx context.Context, updateType UpdateType, pod, mirrorPod *v1.Pod, view *runtime.PodStatus) (SyncResult, error)

	// SyncTerminatingPod stops the containers and returns nil only when a
	// fresh reading of the runtime shows none running and the final container
	// states are published. statusFunc, if not nil, edits the status to publish.
	// gracePeriodSeconds is nil (use the spec's) or at least 1, and never grows
	// over the calls of one life.
	SyncTerminatingPod(ctx context.Context, pod *v1.Pod, view *runtime.PodStatus, gracePeriodSeconds *int64, statusFunc PodStatusFunc) error

	// SyncTerminatingRuntimePod stops a pod that is known only from the
	// runtime, with a grace of one second, and publishes nothing.
	SyncTerminatingRuntimePod(ctx context.Context, pod *runtime.Pod) error

	// SyncTerminatedPod releases everything held for a pod whose containers
	// have stopped (volumes, cgroups, secrets) and publishes the last status
	// as final. It is not guaranteed to run after a crash: what it does on disk
	// must be repeatable and also be covered by housekeeping.
	SyncTerminatedPod(ctx context.Context, pod *v1.Pod, view *runtime.PodStatus) error
}

// UnseenStopper is an optional ability of a [PodSyncer]. StopUnseen is called for a pod that has to
// stop and has had no view for 10 s, because the runtime does not describe it. It stops what runs
// of the pod, based on whatever else is known about it, and returns nil once the runtime has
// accepted that. It publishes nothing and completes nothing: SyncTerminatingPod is called as soon
// as there is a view. It is called again while it fails, and when the grace gets shorter;
// gracePeriodSeconds is that of SyncTerminatingPod. It counts as one of the pod's calls, under the
// same contract.
type UnseenStopper interface {
	StopUnseen(ctx context.Context, pod *v1.Pod, gracePeriodSeconds *int64) error
}

// Seen reports that the syncer has read the pod since it last changed anything of it, and that the
// [StatusSource] has that reading, with this stamp, or a newer one from now on. The next call for the
// pod then gets that view or a newer one. Without it, the next call waits for a view that is newer than
// the end of this call (V1), which the source is asked for. A syncer may call it in any of its methods,
// with the context it was given and on the goroutine it was called on, and again after each later
// reading. A syncer that changes something afterwards must withdraw it with a stamp of 0.
func Seen(ctx context.Context, stamp runtime.Stamp) {
	if seen, ok := ctx.Value(seenKey{}).(*atomic.Uint64); ok {
		seen.Store(uint64(stamp))
	}
}

// seenKey is where the context of a call holds what Seen sets.
type seenKey struct{}

// PodStatusFunc edits the status that is published while a pod terminates, for
// example to add the reason of an eviction. It runs on the syncer's goroutine,
// possibly several times, and must not block.
type PodStatusFunc func(status *v1.PodStatus)

// PodSyncerFuncs is a [PodSyncer] made of functions. A nil function does
// nothing and succeeds.
type PodSyncerFuncs struct {
	Sync               func(ctx context.Context, updateType UpdateType, pod, mirrorPod *v1.Pod, view *runtime.PodStatus) (SyncResult, error)
	Terminating        func(ctx context.Context, pod *v1.Pod, view *runtime.PodStatus, gracePeriodSeconds *int64, statusFunc PodStatusFunc) error
	TerminatingRuntime func(ctx context.Context, pod *runtime.Pod) error
	Terminated         func(ctx context.Context, pod *v1.Pod, view *runtime.PodStatus) error
}

var _ PodSyncer = PodSyncerFuncs{}

// SyncPod calls Sync.
func (f PodSyncerFuncs) SyncPod(ctx context.Context, updateType UpdateType, pod, mirrorPod *v1.Pod, view *runtime.PodStatus) (SyncResult, error) {
	if f.Sync == nil {
		return SyncResult{}, nil
	}
	return f.Sync(ctx, updateType, pod, mirrorPod, view)
}

// SyncTerminatingPod calls Terminating.
func (f PodSyncerFuncs) SyncTerminatingPod(ctx context.Context, pod *v1.Pod, view *runtime.PodStatus, gracePeriodSeconds *int64, statusFunc PodStatusFunc) error {
	if f.Terminating == nil {
		return nil
	}
	return f.Terminating(ctx, pod, view, gracePeriodSeconds, statusFunc)
}

// SyncTerminatingRuntimePod calls TerminatingRuntime.
func (f PodSyncerFuncs) SyncTerminatingRuntimePod(ctx context.Context, pod *runtime.Pod) error {
	if f.TerminatingRuntime == nil {
		return nil
	}
	return f.TerminatingRuntime(ctx, pod)
}

// SyncTerminatedPod calls Terminated.
func (f PodSyncerFuncs) SyncTerminatedPod(ctx context.Context, pod *v1.Pod, view *runtime.PodStatus) error {
	if f.Terminated == nil {
		return nil
	}
	return f.Terminated(ctx, pod, view)
}

// StatusSource gives the workers their view of the runtime, with an order
// between views and calls (spec/podworkers.md 9): the view of a call is strictly
// newer than the end of the previous call for that pod.
//
// All methods are called from many goroutines at once. Stamp and Refresh must
// not block.
type StatusSource interface {
	// Stamp draws a stamp. The workers draw one when a call has returned; a
	// view is newer than the call if its own stamp is larger.
	Stamp() runtime.Stamp
	// GetNewerThan waits for a view of uid that is newer than after and
	// returns it: an empty status if the runtime does not have the pod, nil
	// only together with an error. after 0 accepts any view of a complete
	// reading. It ends with ctx. Once it has returned a view for (uid, after),
	// later calls with the same arguments must return one without waiting.
	GetNewerThan(ctx context.Context, uid types.UID, after runtime.Stamp) (*runtime.PodStatus, error)
	// Refresh asks for a new view of uid soon. It is a hint.
	Refresh(uid types.UID)
}

// StatusPeeker is an optional ability of a [StatusSource]. It saves a goroutine
// switch per call, recognizes a pod that ended before this process started in its
// first call (U3), and keeps a terminal static pod with leftover containers from
// being treated as finished (W6).
type StatusPeeker interface {
	// Peek returns the newest view of uid without waiting: an empty status if
	// the runtime does not have the pod, an error if there was no complete
	// reading of the runtime yet or the last reading of this pod failed. A
	// view's Stamp says how new it is.
	Peek(uid types.UID) (*runtime.PodStatus, error)
}

// RunningLister is an optional ability of a [StatusSource]. With it a static
// pod does not start while the runtime still runs another UID of its full name
// (N6), for example because its manifest changed while the agent was down.
type RunningLister interface {
	// RunningAs returns the pods with this namespace and name that have a
	// running container or a ready sandbox in the newest view, without
	// waiting.
	RunningAs(namespace, name string) []*runtime.Pod
}

// Journal makes latched facts durable before anyone can act on them
// (spec/podworkers.md L12, spec/cleanup.md CK5 and CK6).
//
// Record is called on the goroutine of a syncer call, never twice at once for
// one UID: before the first setup call, before the first terminating call and
// whenever a fact has changed since, and after a call that ended a phase, before
// the workers show the new phase. After an error the call is not made (or the
// phase not ended), and Record is retried with back-off. It may block and should
// end with ctx.
type Journal interface {
	Record(ctx context.Context, uid types.UID, facts Facts) error
}
