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
	// EventRun: calls may start. Before it updates are taken and wait.
	EventRun EventKind = iota
	// EventUpdate: somebody calls UpdatePod [Update].
	EventUpdate
	// EventSyncKnown: somebody calls SyncKnownPods [Desired, Known].
	EventSyncKnown
	// EventDispatch: start what is ready, in order, as far as slots allow.
	EventDispatch
	// EventTake: start this ready record whatever the order and limits [UID].
	// An explorer uses it where the shell dispatches.
	EventTake
	// EventObserved: the answer to an Observe effect [UID, Observed].
	EventObserved
	// EventStale: a started call has no fresh view and gives its slot back [Call].
	EventStale
	// EventViewReady: the view of a stale call is there [Call].
	EventViewReady
	// EventDone: a call ended [Call, Result].
	EventDone
	// EventTick: time has passed.
	EventTick
	// EventStop: stop in some mode [Stop].
	EventStop
)

// Event is one input. Apply does not keep it.
type Event struct {
	Kind     EventKind
	UID      types.UID
	Update   Update
	Desired  []*v1.Pod
	Known    func(types.UID, Known)
	Observed Observation
	Call     *Call
	Result   Result
	Stop     Stop

	// Answer is set by Apply.
	Answer Answer
}

// Answer is what Apply returns in the event.
type Answer struct {
	// Outcome is set by EventUpdate.
	Outcome Outcome
	// Continue is set by EventStale: go on and wait for the view. False means
	// the call has ended.
	Continue bool
}

// Type is the type of an update, with the numbers of podworkers.UpdateType.
type Type uint8

// Update types.
const (
	TypeSync Type = iota
	TypeUpdate
	TypeCreate
	TypeKill
)

// Update is the content of EventUpdate.
type Update struct {
	Type    Type
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

// Completion is told when a requested termination has ended.
type Completion struct {
	// Ch is closed; nil for none.
	Ch chan<- struct{}
	// Result is for the shell.
	Result any
}

// Outcome says what became of an update, with the numbers of podworkers.Outcome.
type Outcome uint8

// Outcomes.
const (
	OutcomeQueued Outcome = iota + 1
	OutcomeMerged
	OutcomeRestartRemembered
	OutcomeIgnoredFinished
	OutcomeIgnoredInvalid
	OutcomeIgnoredStale
	OutcomeStopped
)

// Observation is what the runtime shows of a static pod that wants to start or
// was asked to stop before it started (W6, N6).
type Observation struct {
	// Known is false if the view cannot be read yet.
	Known bool
	// Running: this UID has a running container or a ready sandbox.
	Running bool
	// Others are other UIDs running under the same full name.
	Others []*runtime.Pod
	// SourcesReady allows killing those of Others nobody knows. If nil,
	// they may be killed after the first SyncKnown.
	SourcesReady *bool
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
	Type    Type
	Pod     *v1.Pod
	Mirror  *v1.Pod
	Running *runtime.Pod
	// Grace is nil if the spec's period counts.
	Grace      *int64
	StatusFunc func(*v1.PodStatus)
	// After: the view must be newer. NeedsView is false if none is used.
	After     runtime.Stamp
	NeedsView bool
	// Viewed: a view newer than After has been seen, asking again is quick.
	Viewed bool
	// Record: Facts must be made durable before the call.
	Record bool
	Facts  Facts
	// Start is when the oldest update merged into this call was made.
	Start    time.Duration
	HasStart bool
	// Handle belongs to the shell.
	Handle any

	cause Cause
	slot  bool
	stuck bool
}

// Facts are the latched facts of a life, as in podworkers.Facts.
type Facts struct {
	Started, TerminationRequested, Deleted, Evicted, Terminated, Finished bool
	Grace                                                                 int64
}

// Result is how a call ended.
type Result struct {
	// Err is nil for success.
	Err error
	// Failure says where Err comes from.
	Failure Failure
	// Canceled: Err says that the call gave up because its context ended.
	Canceled bool
	// Terminal and Acted are the setup results.
	Terminal, Acted bool
	// End is the stamp drawn after the syncer returned; 0 if it was not called.
	End runtime.Stamp
	// Retry overrides the back-off if Err is set; RetryAfter is for RetryExplicit.
	Retry      Retry
	RetryAfter time.Duration
	// Recorded: these facts are durable.
	Recorded      bool
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

// Known is what SyncKnownPods says of one record.
type Known struct {
	Phase     Phase
	Orphan    bool
	HasConfig bool
	Static    bool
}

// StopMode is how to stop.
type StopMode uint8

// Stop modes.
const (
	StopDetach StopMode = iota
	StopTerminate
	StopNow
)

// Stop is the content of EventStop.
type Stop struct {
	Mode StopMode
	// Grace caps the grace periods when terminating; nil for none.
	Grace *int64
}
