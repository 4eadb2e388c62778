package checkpoint

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/proberesult"
	"github.com/podwright/podwright/internal/restarts"
)

// Record is what must be known of one pod after the agent was killed (spec/cleanup.md CK1,
// spec/status.md 9.2). Once a [Keeper] or [Store] has taken or returned a record, it is read-only,
// with everything it points to: to change a record, replace what changes.
//
// All times are wall clock. The zero value of each field means "not known" or
// "did not happen".
type Record struct {
	// UID, Namespace and Name of the pod. A record without a UID is not valid.
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name,omitempty"`
	// Source is the name of the source that wants the pod.
	Source string `json:"source,omitempty"`
	// ConfigHash identifies the content of a pod that does not come from an API.
	ConfigHash string `json:"configHash,omitempty"`
	// Generation of the pod that the record is about.
	Generation int64 `json:"generation,omitempty"`
	// BootID names the boot of the machine during which the record was last written.
	BootID string `json:"bootID,omitempty"`
	// WrittenAt is when the record was last written; becoming one of another boot does not count.
	WrittenAt time.Time `json:"writtenAt,omitzero"`

	// Admission is the verdict on the pod; nil if there is none yet.
	Admission *Admission `json:"admission,omitempty"`
	// StartedAt is when the first container of the pod was about to be started;
	// zero if none ever was.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// Termination says why and since when the pod has to stop; nil while it does not.
	Termination *Termination `json:"termination,omitempty"`
	// TerminatedAt is when the last container was seen stopped.
	TerminatedAt time.Time `json:"terminatedAt,omitzero"`
	// EarlierLife: the runtime may still have containers of an earlier life of the UID.
	EarlierLife bool `json:"earlierLife,omitempty"`
	// Lives is how many lives the UID had before this one.
	Lives int `json:"lives,omitempty"`
	// Finished: everything the engine held for the pod is released.
	Finished bool `json:"finished,omitempty"`

	// Status is the newest status of the pod, Version its number.
	Status  *v1.PodStatus `json:"status,omitempty"`
	Version uint64        `json:"version,omitempty"`
	// Acks say what each sink has, sorted by sink.
	Acks []Ack `json:"acks,omitempty"`
	// Containers in the order they were first seen.
	Containers []Container `json:"containers,omitempty"`
	// Restarts are the requested restarts of the pod's containers; nil if there are none.
	Restarts *restarts.Asked `json:"restarts,omitempty"`
	// Pod is the pod as last desired; nil if it is not remembered.
	Pod *v1.Pod `json:"pod,omitempty"`
	// Unwanted: the pod's source has since answered without naming it.
	Unwanted bool `json:"unwanted,omitempty"`
	// Retired: the life is over, and the record is kept only for work that its end has left to do.
	// If the UID is desired again, that is a new life.
	Retired bool `json:"retired,omitempty"`
}

// Admission is the verdict on a pod.
type Admission struct {
	// At is when the verdict was given.
	At time.Time `json:"at,omitzero"`
	// Refused: the pod must not run; Reason and Message say why.
	Refused bool   `json:"refused,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Resources are those that the pod was admitted with, in a spec that has nothing else: of its containers by name,
	// and of the pod itself. Nil: those of the record's pod.
	Resources *v1.PodSpec `json:"resources,omitempty"`
}

// Cause says why a pod has to stop.
type Cause string

// Causes.
const (
	// CauseTerminal: its phase is Succeeded or Failed.
	CauseTerminal Cause = "terminal"
	// CauseDeleted: no source wants it any more.
	CauseDeleted Cause = "deleted"
	// CauseEvicted: it was evicted, was preempted or exceeded its deadline.
	CauseEvicted Cause = "evicted"
	// CauseKilled: any other reason.
	CauseKilled Cause = "killed"
)

// Termination is an end that was decided and is never taken back.
type Termination struct {
	RequestedAt time.Time `json:"requestedAt,omitzero"`
	// Cause is the first cause; Deleted and Evicted are set in addition.
	Cause   Cause `json:"cause,omitempty"`
	Deleted bool  `json:"deleted,omitempty"`
	Evicted bool  `json:"evicted,omitempty"`
	// GracePeriodSeconds is 0 while unknown; it only shrinks.
	GracePeriodSeconds int64 `json:"gracePeriodSeconds,omitempty"`
	// Decision is the end that was decided for the pod, nil if there was no decision: its status
	// shows this whatever its containers say (IN8).
	Decision *Decision `json:"decision,omitempty"`
}

// Decision is the end that an eviction, a preemption or a shutdown decided for a pod.
type Decision struct {
	Phase   v1.PodPhase `json:"phase"`
	Reason  string      `json:"reason,omitempty"`
	Message string      `json:"message,omitempty"`
	// Disrupted: the pod has the condition DisruptionTarget.
	Disrupted bool `json:"disrupted,omitempty"`
	// KeepsSuccess: a pod that has succeeded keeps its phase.
	KeepsSuccess bool `json:"keepsSuccess,omitempty"`
}

// Ack is what one sink has taken.
type Ack struct {
	// Sink is the sink's name, Target the UID under which it has the pod.
	Sink   string    `json:"sink"`
	Target types.UID `json:"target,omitempty"`
	// Version is the newest version it has.
	Version uint64 `json:"version"`
}

// Container is what is remembered of one container name.
type Container struct {
	Name string `json:"name"`
	// ID of the newest run, in the form a status uses (runtime://id); Started and Ready are about
	// this run.
	ID      string `json:"id,omitempty"`
	Started bool   `json:"started,omitempty"`
	Ready   bool   `json:"ready,omitempty"`
	// StartedAt is when this run began.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// Probes are the last results for this run, by kind, in the types of package probe
	// (spec/probe.md 8).
	Probes proberesult.Facts `json:"probes,omitempty"`
	// RestartCount never goes down.
	RestartCount int32 `json:"restartCount,omitempty"`
	// Ends are the newest two ends, newest first.
	Ends []End `json:"ends,omitempty"`
}

// End is how one run of a container ended.
type End struct {
	// ID of the run, in the form a status uses.
	ID           string    `json:"id,omitempty"`
	ExitCode     int32     `json:"exitCode"`
	Signal       int32     `json:"signal,omitempty"`
	Reason       string    `json:"reason,omitempty"`
	Message      string    `json:"message,omitempty"`
	StartedAt    time.Time `json:"startedAt,omitzero"`
	FinishedAt   time.Time `json:"finishedAt,omitzero"`
	RestartCount int32     `json:"restartCount,omitempty"`
}

// Terminal reports whether the record's phase is final.
func (r *Record) Terminal() bool {
	return r.Status != nil && podinfo.Terminal(r.Status.Phase)
}

// Acked returns what a sink has; zero if that is not known.
func (r *Record) Acked(sink string) Ack {
	for _, a := range r.Acks {
		if a.Sink == sink {
			return a
		}
	}
	return Ack{}
}

// SetAck records what a sink has. The record must be a [Record.Clone].
func (r *Record) SetAck(a Ack) {
	at, found := slices.BinarySearchFunc(r.Acks, a.Sink, func(have Ack, sink string) int { return cmp.Compare(have.Sink, sink) })
	if found {
		r.Acks[at] = a
		return
	}
	r.Acks = slices.Insert(r.Acks, at, a)
}

// Container returns what is remembered of a container name.
func (r *Record) Container(name string) (Container, bool) {
	for i := range r.Containers {
		if r.Containers[i].Name == name {
			return r.Containers[i], true
		}
	}
	return Container{}, false
}

// SetContainer replaces what is remembered of a container name. The record must
// be a [Record.Clone].
func (r *Record) SetContainer(c Container) {
	for i := range r.Containers {
		if r.Containers[i].Name == c.Name {
			r.Containers[i] = c
			return
		}
	}
	r.Containers = append(r.Containers, c)
}

// Clone returns a copy whose fields and lists may be replaced; what they point to is shared.
func (r *Record) Clone() *Record {
	c := *r
	c.Acks = slices.Clone(r.Acks)
	c.Containers = slices.Clone(r.Containers)
	return &c
}
