package podworkers

import "github.com/podwright/podwright/podworkers/internal/machine"

// The vocabulary that the workers and their state machine share.

// UpdateType says why UpdatePod is called. The workers treat Sync, Update and
// Create alike with one exception: a Create for a pod that is being terminated
// requests a new life of the same UID afterwards (U5).
type UpdateType = machine.UpdateType

// Update types.
const (
	// Sync: sync the pod again; nothing changed in its spec.
	Sync = machine.TypeSync
	// Update: the pod's spec or metadata changed, deletion included.
	Update = machine.TypeUpdate
	// Create: the pod is new to the source.
	Create = machine.TypeCreate
	// Kill: terminate the pod.
	Kill = machine.TypeKill
	// Restart: begin the next life of a finished pod, and forget the previous life in the
	// same step. For any other pod it is a Create, and the syncer sees it as one.
	Restart = machine.TypeRestart
)

// Outcome says what UpdatePod did with an update (L10): Accepted is true if it
// counts, and String describes what happened to it.
type Outcome = machine.Outcome

// State is where a pod stands: queued, termination queued, setup, termination
// requested, terminating, terminating (runtime only), terminated or finished.
// Terminating reports whether its containers have to stop and may be running,
// Terminated whether none runs or will run, Finished whether everything held for the
// pod is released.
type State = machine.State

// PodSync is the state of a pod after SyncKnownPods. Its fields:
//
//	State     State
//	Orphan    bool // the pod is not in the desired list
//	HasConfig bool // the full pod is known, not only what the runtime shows
//	Static    bool // it comes from a source other than the API
//	Restart   bool // it is desired, has finished and should live again: pass it to UpdatePod with Restart
type PodSync = machine.PodSync

// SyncResult is what a successful SyncPod call found. It is ignored if the call
// returned an error. Its fields:
//
//	Terminal  bool                // the pod's phase is Succeeded or Failed, and published
//	Acted     bool                // something was changed: a new view is requested at once
//	RequeueAt time.Time           // when to sync again, if before the next resync; zero: at the resync
//	Amend     func(*v1.PodStatus) // with Terminal: adds a decision about the pod's end to its statuses; nil: there was none
type SyncResult = machine.SyncResult

// Facts are the latched facts of one life of a pod. Its fields:
//
//	Started              bool                // setup, or the end of a pod that was never set up, may begin
//	TerminationRequested bool                // the pod has to stop; never taken back
//	GracePeriodSeconds   int64               // 0 while unknown; it only shrinks
//	Deleted, Evicted     bool                // why it has to stop
//	Amend                func(*v1.PodStatus) // adds the reason of a decision about the pod to its status; nil: none was made
//	Terminated           bool                // no container runs and none will
//	Finished             bool                // everything held for the pod is released
type Facts = machine.Facts

// BackOff is the pause after failed calls: Initial after the first, twice as
// long after each further one up to Max, each plus up to half of it. It is reset
// by a success, a change of phase and a changed spec. The kubelet pauses 10 s
// each time: BackOff{Initial: 10 * time.Second, Max: 10 * time.Second}.
type BackOff = machine.BackOff

// StopMode says what [Workers.Stop] does with the pods.
type StopMode = machine.StopMode

// Stop modes.
const (
	// Detach leaves the pods as they are: setup calls are cancelled,
	// terminating and terminated calls may end by themselves.
	Detach = machine.StopDetach
	// Terminate requests the termination of every pod, in order of UID, and
	// ends when all have completed their terminated step.
	Terminate = machine.StopTerminate
	// Now cancels every call.
	Now = machine.StopNow
)

// Cause says why a call was cancelled: it is the [context.Cause] of its context.
type Cause = machine.Cause

// Causes.
const (
	// CauseTerminating: the pod has to stop.
	CauseTerminating = machine.CauseTerminating
	// CauseGraceShrunk: the grace period got shorter; the call is repeated.
	CauseGraceShrunk = machine.CauseGraceShrunk
	// CauseOrphaned: the pod is no longer desired.
	CauseOrphaned = machine.CauseOrphaned
	// CauseStopping: the workers are stopping.
	CauseStopping = machine.CauseStopping
	// CauseDeadline: the call took longer than its limit.
	CauseDeadline = machine.CauseDeadline
)
