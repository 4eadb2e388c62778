package podworkers

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime"
)

// UpdateType says why UpdatePod is called. The workers treat Sync, Update and
// Create alike, but for one thing: a Create for a pod that is being terminated
// asks for a new life of the same UID afterwards (U5).
type UpdateType uint8

// Update types.
const (
	// Sync: look at the pod again; nothing changed in its spec.
	Sync UpdateType = iota
	// Update: the pod's spec or metadata changed, deletion included.
	Update
	// Create: the pod is new to the source.
	Create
	// Kill: terminate the pod.
	Kill
)

// String returns the type in lower case.
func (t UpdateType) String() string {
	switch t {
	case Sync:
		return "sync"
	case Update:
		return "update"
	case Create:
		return "create"
	case Kill:
		return "kill"
	default:
		return "unknown"
	}
}

// UpdateOptions is one update of a pod. The workers keep the pods they are
// given and treat them as read-only; the caller must not modify them afterwards.
type UpdateOptions struct {
	// Type is why; the zero value is Sync.
	Type UpdateType
	// Pod is the full pod with a UID. Required unless RunningPod is given.
	Pod *v1.Pod
	// MirrorPod is the API twin of a static pod, or nil. The last non-nil one
	// is remembered.
	MirrorPod *v1.Pod
	// RunningPod is a pod known only from the runtime; Type must be Kill. It is
	// ignored if Pod is given too (U1).
	RunningPod *runtime.Pod
	// StartTime is when the update was made, for the latency metric. Zero:
	// not measured.
	StartTime time.Time
	// Kill says how to terminate. It counts only for a pod whose termination
	// is or gets requested; nil is fine for every type.
	Kill *KillOptions
}

// KillOptions says how a pod is to be terminated.
type KillOptions struct {
	// Evict marks the pod as evicted: its content may be removed at once (E1).
	Evict bool
	// StatusFunc edits the status published while terminating. The last one
	// given is used on every attempt.
	StatusFunc PodStatusFunc
	// GracePeriodSeconds can only shorten the grace period; values below 1
	// count as 1. Nil: no opinion.
	GracePeriodSeconds *int64
	// Completed, if not nil, is closed exactly once when no container of the
	// pod runs any more and none will, or when that will never be known: see
	// [KillOutcome]. It must not be closed by anyone else. Giving the same
	// channel again is harmless.
	Completed chan<- struct{}
	// Result, if not nil, is filled in before Completed is closed. Read it only
	// after that.
	Result *KillResult
}

// KillOutcome says how a requested termination ended.
type KillOutcome uint8

// Kill outcomes. The zero value means not ended yet.
const (
	// KillDone: the containers were stopped.
	KillDone KillOutcome = iota + 1
	// KillAlreadyTerminated: they had been stopped before the request.
	KillAlreadyTerminated
	// KillNeverStarted: the pod ended without ever having been started.
	KillNeverStarted
	// KillNotRequested: the update did not request a termination and none was
	// under way, so there is nothing to wait for (U10).
	KillNotRequested
	// KillTimeout: KillPod gave up waiting; the termination goes on.
	KillTimeout
	// KillStopped: the workers stopped first; the containers may be running.
	KillStopped
)

// String returns the outcome in words.
func (o KillOutcome) String() string {
	switch o {
	case KillDone:
		return "done"
	case KillAlreadyTerminated:
		return "already terminated"
	case KillNeverStarted:
		return "never started"
	case KillNotRequested:
		return "not requested"
	case KillTimeout:
		return "timeout"
	case KillStopped:
		return "stopped"
	default:
		return "pending"
	}
}

// KillResult is the end of a requested termination.
type KillResult struct {
	Outcome KillOutcome
	// At is when it ended, by the workers' clock.
	At time.Time
	// Err is the last error of a call for this pod's termination if the
	// outcome is KillTimeout or KillStopped, nil if there was none.
	Err error
}

// Outcome says what UpdatePod did with an update (L10).
type Outcome uint8

// Outcomes.
const (
	// Queued: the pod will be looked at with this update.
	Queued Outcome = iota + 1
	// Merged: as Queued, and an update that nobody had looked at yet was
	// replaced by this one.
	Merged
	// RestartRemembered: a new life of this UID begins after the present one.
	RestartRemembered
	// IgnoredFinished: the pod's life is over.
	IgnoredFinished
	// IgnoredInvalid: no pod, no UID, or a runtime pod with another type than Kill.
	IgnoredInvalid
	// IgnoredStale: a runtime pod that has terminated since the list was read.
	IgnoredStale
	// Stopped: the workers are stopping or have stopped.
	Stopped
)

// String returns the outcome in words.
func (o Outcome) String() string {
	switch o {
	case Queued:
		return "queued"
	case Merged:
		return "merged"
	case RestartRemembered:
		return "restart remembered"
	case IgnoredFinished:
		return "ignored: finished"
	case IgnoredInvalid:
		return "ignored: invalid"
	case IgnoredStale:
		return "ignored: stale"
	case Stopped:
		return "stopped"
	default:
		return "unknown"
	}
}
