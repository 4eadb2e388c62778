package machine

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// EventKind says what happened.
type EventKind uint8

// Events. The fields of [Event] that each one reads are in brackets.
const (
	// EventRun: calls may start. Updates that come before it are accepted and wait.
	EventRun EventKind = iota
	// EventUpdate: UpdatePod was called [Update].
	EventUpdate
	// EventSyncKnown: SyncKnownPods was called [Desired, Known].
	EventSyncKnown
	// EventDispatch: start ready records in order, while fewer calls run than Limit [Limit].
	EventDispatch
	// EventTake: start this ready record, regardless of the order [UID].
	// An explorer uses it where the shell dispatches.
	EventTake
	// EventObserved: the answer to an Observe effect [UID, Observed].
	EventObserved
	// EventStale: a started call has no fresh view [Call].
	EventStale
	// EventViewReady: the view of a stale call is available [Call].
	EventViewReady
	// EventDone: a call ended [Call, Result].
	EventDone
	// EventTick: time has passed.
	EventTick
	// EventStop: stop in the given mode [Stop].
	EventStop
	// EventHold: something of UID is about to be removed [UID, Hold].
	EventHold
	// EventForget: drop the record of UID if it is finished [UID].
	EventForget
	// EventWake: look at the pod of UID again [UID].
	EventWake
	// EventRelease: the removal behind a hold has ended [UID, the ID of Hold].
	EventRelease
)

// Event is one input. Apply does not keep it.
type Event struct {
	Kind     EventKind
	UID      types.UID
	Update   Update
	Desired  []*v1.Pod
	Known    func(types.UID, PodSync)
	Observed Observation
	Call     *Call
	Result   Result
	Stop     Stop
	Hold     Hold

	// Limit is the most calls that may run after a dispatch; 0 means any number.
	Limit int

	// Answer is set by Apply.
	Answer Answer
}

// Answer is what Apply returns in the event.
type Answer struct {
	// Outcome is set by EventUpdate and EventWake.
	Outcome Outcome
	// Continue is set by EventStale: go on and wait for the view. False means
	// the call has ended.
	Continue bool
	// Hold is set by EventHold: the ID of the hold, 0 if a life is under way.
	Hold uint64
	// Forgotten is set by EventForget: the record was finished, and is gone.
	Forgotten bool
}

// UpdateType says why a pod is updated. The workers treat Sync, Update and Create
// alike, with one exception: a Create for a pod that is being terminated asks for a
// new life of the same UID afterwards (U5).
type UpdateType uint8

// Update types.
const (
	// TypeSync: look at the pod again; nothing changed in its spec.
	TypeSync UpdateType = iota
	// TypeUpdate: the pod's spec or metadata changed, deletion included.
	TypeUpdate
	// TypeCreate: the pod is new to the source.
	TypeCreate
	// TypeKill: terminate the pod.
	TypeKill
	// TypeRestart: begin the next life of a pod that has finished, and forget its last
	// life in the same step (R2). For any other pod it is a Create.
	TypeRestart
)

// String returns the type in lower case.
func (t UpdateType) String() string {
	if t > TypeRestart {
		return "unknown"
	}
	return [...]string{"sync", "update", "create", "kill", "restart"}[t]
}

// Update is the content of EventUpdate.
type Update struct {
	Type    UpdateType
	Pod     *v1.Pod
	Mirror  *v1.Pod
	Running *runtime.Pod
	// Start is when the update was made, if HasStart.
	Start    time.Duration
	HasStart bool
	Kill     *Kill
	// ViewStopped: the view of this pod is readable and shows nothing running
	// (U3).
	ViewStopped bool
}

// Kill is the kill part of an update.
type Kill struct {
	Evict      bool
	StatusFunc func(*v1.PodStatus)
	Grace      *int64
	Completion Completion
}

// Completion reports that a requested termination has ended.
type Completion struct {
	// Ch is closed; nil for none.
	Ch chan<- struct{}
	// Outcome, if not nil, is filled in before Ch is closed.
	Outcome *KillOutcome
}

// Outcome says what became of an update (L10).
type Outcome uint8

// Outcomes.
const (
	// OutcomeQueued: a round of the pod will take this update.
	OutcomeQueued Outcome = iota + 1
	// OutcomeMerged: as queued, and the update replaces one that had not been taken.
	OutcomeMerged
	// OutcomeRestartRemembered: a new life of this UID begins after the current one.
	OutcomeRestartRemembered
	// OutcomeIgnoredFinished: the pod's life is over.
	OutcomeIgnoredFinished
	// OutcomeIgnoredInvalid: no pod, no UID, or a runtime pod with another type than Kill.
	OutcomeIgnoredInvalid
	// OutcomeIgnoredStale: a runtime pod that has terminated since the list was read.
	OutcomeIgnoredStale
	// OutcomeStopped: the workers are stopping or have stopped.
	OutcomeStopped
)

// Accepted reports whether the update counts, now or for the pod's next life.
func (o Outcome) Accepted() bool { return o >= OutcomeQueued && o <= OutcomeRestartRemembered }

// String returns the outcome in words.
func (o Outcome) String() string {
	if o > OutcomeStopped {
		o = 0
	}
	return [...]string{
		"unknown", "queued", "merged", "restart remembered",
		"ignored: finished", "ignored: invalid", "ignored: stale", "stopped",
	}[o]
}

// Observation is what the runtime shows of a static pod that wants to start or
// was asked to stop before it started (W6, N6).
type Observation struct {
	// Failed: nothing else of the observation counts, and another one is needed.
	Failed bool
	// Known is false if the view cannot be read yet.
	Known bool
	// Running: this UID has a running container or a ready sandbox.
	Running bool
	// Others are other UIDs running under the same full name.
	Others []Other
	// SourcesReady allows killing those of Others that have no record. If nil,
	// they may be killed after the first SyncKnown.
	SourcesReady *bool
}

// Other is a pod that runs under the name of another one. Pod is nil if only the runtime
// knows it; otherwise Kill says what is left of a termination that had begun (IN7). Spared: it is
// not killed for the one that waits.
type Other struct {
	Running *runtime.Pod
	Pod     *v1.Pod
	Kill    *Kill
	Spared  bool
}

// Phase is the kind of a syncer call, and of the work a record needs next.
type Phase uint8

// Phases.
const (
	Setup Phase = iota
	Terminating
	TerminatingRuntime
	Terminated
)

// Call is one syncer call, from its first start to its end. The machine owns
// it while the record waits; the shell may read it while the call is started
// or waits for its view.
type Call struct {
	UID     types.UID
	Phase   Phase
	Type    UpdateType
	Pod     *v1.Pod
	Mirror  *v1.Pod
	Running *runtime.Pod
	// Grace is nil if the spec's period applies.
	Grace      *int64
	StatusFunc func(*v1.PodStatus)
	// After: the view must be newer. NeedsView is false if the call uses no view.
	After     runtime.Stamp
	NeedsView bool
	// Viewed: a view newer than After has been seen, so asking again is quick.
	Viewed bool
	// Record: Facts must be made durable before the call.
	Record bool
	Facts  Facts
	// Start is when the oldest update merged into this call was made.
	Start    time.Duration
	HasStart bool
	// Handle belongs to the shell.
	Handle any

	cause   Cause
	amends  bool // Facts.Amend is newer than what is durable
	counted bool // in inPhase
	stuck   bool
}

// Facts are the latched facts of one life of a pod.
type Facts struct {
	// Started: setup, or termination of a pod that was never set up, may begin.
	Started bool
	// TerminationRequested: the pod has to stop; never taken back.
	TerminationRequested bool
	// Terminated: no container runs and none will.
	Terminated bool
	// Finished: everything held for the pod is released.
	Finished bool
	Deleted  bool
	Evicted  bool
	// GracePeriodSeconds is 0 while unknown; it only shrinks.
	GracePeriodSeconds int64
	// Amend puts the reason of a decision to end the pod (eviction, preemption, shutdown) into its status; nil if there
	// was no such decision. It is pure.
	Amend func(*v1.PodStatus)
}

// SyncResult is what a successful setup call found. It is ignored if the call
// returned an error.
type SyncResult struct {
	// Terminal: the pod's phase is Succeeded or Failed and published.
	Terminal bool
	// Acted: the call changed something at the runtime, so the machine asks for a
	// new view at once.
	Acted bool
	// RequeueAt is when to look at the pod again, if that is before the next resync: the pod waits
	// for something outside that does not announce itself. That is not a failure. A time in the past
	// means in a second; the zero time means none.
	RequeueAt time.Time
	// Amend, if Terminal, puts the decision that ended the pod, such as a deadline, into its
	// statuses. It is durable before the next step, and applies to the pod's statuses until its
	// containers have stopped (IN8). If nil, the containers determine how the pod ended.
	Amend func(*v1.PodStatus)
}

// Result is how a call ended.
type Result struct {
	// Err is nil for success.
	Err error
	// Failure says where Err comes from.
	Failure Failure
	// Canceled: Err says that the call gave up because its context ended.
	Canceled bool
	// Seen: the syncer has already read a view newer than End.
	Seen bool
	// Retry overrides the back-off if Err is set; RetryAfter is for RetryExplicit and Requeue.
	Retry Retry
	// Requeue: Err is nil, and RetryAfter is when to look at the pod again.
	Requeue bool
	// Recorded: RecordedFacts are durable.
	Recorded bool
	SyncResult
	// End is older than every view that shows what the call did: the stamp drawn after the syncer
	// returned, or earlier if Seen; 0 if it was not called.
	End        runtime.Stamp
	RetryAfter time.Duration
	// RetryWithin, if positive, bounds the back-off before jitter. With RetryExplicit, whichever
	// comes first counts: the named moment or this back-off.
	RetryWithin   time.Duration
	RecordedFacts Facts
}

// Failure says which part of a call failed.
type Failure uint8

// Failures.
const (
	FailureCall Failure = iota
	FailureView
	FailureJournal
	FailurePanic
)

// Retry says when to try again after an error.
type Retry uint8

// Retries.
const (
	RetryBackOff Retry = iota
	RetryNetwork
	RetryExplicit
)

// PodSync is what SyncKnownPods reports about one pod.
type PodSync struct {
	State State
	// Orphan: the pod is not in the desired list.
	Orphan bool
	// HasConfig: the full pod is known, not only what the runtime shows of it.
	HasConfig bool
	// Static: the pod comes from a source other than the API.
	Static bool
	// Restart: the pod is desired, has finished and has to begin a new life. Its record
	// stays until the pod is given to UpdatePod with Restart.
	Restart bool
}

// StopMode says what a stop does with the pods.
type StopMode uint8

// Stop modes.
const (
	// StopDetach leaves the pods as they are: setup calls are cancelled, terminating
	// and terminated calls may run to their end.
	StopDetach StopMode = iota
	// StopTerminate requests the termination of every pod, in order of UID, and ends
	// when all have completed their terminated step.
	StopTerminate
	// StopNow cancels every call.
	StopNow
)

// Stop is the content of EventStop.
type Stop struct {
	Mode StopMode
	// Grace caps the grace periods when terminating; nil for none.
	Grace *int64
}
