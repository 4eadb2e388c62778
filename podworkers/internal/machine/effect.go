package machine

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// EffectKind says what the caller of Apply has to do.
type EffectKind uint8

// Effects.
const (
	// EffectStartCall: start Call, or continue it if it waited for its view.
	EffectStartCall EffectKind = iota
	// EffectCancelCall: end the context of Call with Cause.
	EffectCancelCall
	// EffectCloseCompletion: fill in and close Completion with Completed.
	EffectCloseCompletion
	// EffectSchedule: the record of UID wants a tick at At because of Why. It
	// replaces an earlier schedule. [Machine.NextDue] has the earliest of all.
	// Only with Config.Schedules, like EffectUnschedule.
	EffectSchedule
	// EffectUnschedule: the record of UID no longer wants a tick.
	EffectUnschedule
	// EffectForget: UID no longer has a record.
	EffectForget
	// EffectRefresh: ask for a new view of UID.
	EffectRefresh
	// EffectObserve: look at the runtime for Pod and answer with EventObserved.
	EffectObserve
	// EffectWarn: a Warning event about Pod: Warning, Err, Count.
	EffectWarn
	// EffectMetric: Metric has Value seconds (or a count) with label Label.
	EffectMetric
	// EffectDrained: stopping with StopTerminate is complete.
	EffectDrained
	// EffectCutRemoval: the pod waits for the removal of this Handle, which must stop
	// before its next destructive step. It may come more than once.
	EffectCutRemoval
)

// Effect is one thing to do.
type Effect struct {
	Kind       EffectKind
	Cause      Cause
	Completed  KillOutcome
	Why        Why
	Warning    Warning
	Metric     Metric
	Label      uint8
	UID        types.UID
	Pod        *v1.Pod
	Call       *Call
	Completion Completion
	Handle     any
	At         time.Duration
	Value      float64
	Err        error
	Count      int
}

// Cause is why a call was cancelled (L7). It is the error of the call's context.
type Cause uint8

// Causes.
const (
	CauseNone Cause = iota
	// CauseTerminating: the pod has to stop.
	CauseTerminating
	// CauseGraceShrunk: the grace period got shorter; the call is repeated.
	CauseGraceShrunk
	// CauseOrphaned: the pod is no longer desired.
	CauseOrphaned
	// CauseStopping: the workers are stopping.
	CauseStopping
	// CauseDeadline: the call took longer than its limit.
	CauseDeadline
)

// Error returns the cause in words.
func (c Cause) Error() string {
	return [...]string{
		"not cancelled", "pod is terminating", "grace period shortened", "pod is no longer desired",
		"pod workers are stopping", "call took longer than its limit",
	}[c]
}

// Label returns the cause as a metric names it.
func (c Cause) Label() string {
	return [...]string{"none", "terminating", "grace_shrunk", "orphaned", "stopping", "deadline"}[c]
}

// KillOutcome says how a requested termination ended. The zero value means not
// ended yet.
type KillOutcome uint8

// Kill outcomes.
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
	// KillTimeout: the caller gave up waiting; the termination goes on. The machine
	// never reports it.
	KillTimeout
	// KillStopped: the workers stopped first; the containers may be running.
	KillStopped
)

// String returns the outcome in words.
func (o KillOutcome) String() string {
	if o > KillStopped {
		o = 0
	}
	return [...]string{"pending", "done", "already terminated", "never started", "not requested", "timeout", "stopped"}[o]
}

// Why is the reason of a scheduled tick.
type Why uint8

// Reasons.
const (
	WhyNothing Why = iota
	WhyResync
	WhyBackOff
	WhyNetwork
	WhyRetryAt
	WhyRequeue
	WhyNameTaken
	WhyNameRunning
	WhyViewUnknown
	WhyLookFailed
	WhyDeadline
	WhyStuck
)

// Warning is the reason of a Warning event.
type Warning uint8

// Warnings.
const (
	// WarnFailedSync: the view or the journal failed, no call was made.
	WarnFailedSync Warning = iota
	// WarnPanic: a syncer call panicked, for the Count-th time.
	WarnPanic
	// WarnStuck: a call still runs long after it was cancelled.
	WarnStuck
)

// Metric names a measurement.
type Metric uint8

// Metrics. The meaning of Label is in brackets.
const (
	// MetricDuration: from the update to the end of the round [operation].
	MetricDuration Metric = iota
	// MetricStartDuration: from the first update to the first setup.
	MetricStartDuration
	// MetricContainers: containers of a pod at its first start.
	MetricContainers
	// MetricBackOff: seconds until the next attempt [Phase].
	MetricBackOff
	// MetricState: seconds spent in a state [State].
	MetricState
	// MetricCancel: one call cancelled [Cause].
	MetricCancel
	// MetricPanic: one panic [Phase].
	MetricPanic
)

// OperationTerminated is the Label of MetricDuration for terminated work; the
// others are the Type of the update.
const OperationTerminated = uint8(TypeKill) + 1
