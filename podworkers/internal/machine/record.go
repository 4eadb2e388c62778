package machine

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// step is where a record is in its round; see the picture in the package comment.
type step uint8

const (
	idle step = iota
	ready
	observing
	viewing
	calling
)

// spec is the pod as last given: the content of pending and active updates.
type spec struct {
	pod     *v1.Pod
	mirror  *v1.Pod
	running *runtime.Pod
}

// record is everything known about one UID. Tens of thousands of them idle, so
// it is kept small: its rare parts are behind a pointer, and its history is packed.
type record struct {
	uid types.UID

	// pending is the newest update that has not been taken yet, if hasPending.
	pending      spec
	pendingStart time.Duration
	// active is the content of the last update taken.
	active spec

	syncedAt, since time.Duration
	grace           int64 // 0: not computed yet
	lastEnd         runtime.Stamp
	durable         int64 // grace last recorded in the journal
	lastErr         error
	call            *Call // while calling, viewing, or ready after viewing
	rare            *rare
	history         []entry

	// The queue links ready records.
	next, prev *record

	due     time.Duration
	dueSlot int32 // index in the timer heap plus one; 0: not scheduled
	visit   uint32

	why          Why
	step         step
	pendingType  UpdateType
	seen         State // as of the last history entry
	attempts     uint8
	durableFacts uint8

	hasPending, hasStart bool
	static               bool
	// Latched facts; they never go back within a life (I3).
	started            bool
	terminating        bool
	startedTerminating bool
	terminated         bool
	finished           bool
	deleted            bool
	evicted            bool
	restartRequested   bool
	observedRuntime    bool
	begunCreate        bool // the first setup of a create was counted
}

// rare holds what few records have.
type rare struct {
	completions []Completion
	statusFunc  func(*v1.PodStatus)
	// newAmend: no call has begun to make statusFunc durable. Functions cannot be compared.
	newAmend    bool
	fullName    string // of a static pod
	observation *Observation
	// formerGrace is how long the pod that blocked the last start by its name may take to
	// stop, in seconds.
	formerGrace int64
	// wantedAt is when a next life was first requested, 0 if none was.
	wantedAt time.Duration
	panics   int
}

func (r *record) extra() *rare {
	if r.rare == nil {
		r.rare = &rare{}
	}
	return r.rare
}

// shrink drops the rare part once it holds nothing.
func (r *record) shrink() {
	x := r.rare
	if x != nil && len(x.completions) == 0 && x.statusFunc == nil && x.fullName == "" && x.observation == nil && x.panics == 0 && x.wantedAt == 0 {
		r.rare = nil
	}
}

// pod returns the full pod as last given, nil for a runtime-only record.
func (r *record) pod() *v1.Pod {
	if r.pending.pod != nil {
		return r.pending.pod
	}
	return r.active.pod
}

// begun reports whether calls may be made without asking the start rules again:
// the pod was started, or its left-over containers are being terminated (W6).
func (r *record) begun() bool {
	return r.started || (r.startedTerminating && r.active.pod != nil)
}

// phase returns the work the record needs next. It is always derived, never stored.
func (r *record) phase() Phase {
	switch {
	case r.terminated:
		return Terminated
	case r.terminating && r.pod() == nil:
		return TerminatingRuntime
	case r.terminating:
		return Terminating
	default:
		return Setup
	}
}

// State is where a pod stands in its life (spec/podworkers.md 4).
type State uint8

// States. A UID without a record is Unknown.
const (
	Unknown State = iota
	Queued
	QueuedTermination
	InSetup
	TerminationRequested
	InTermination
	RuntimeOnly
	HasTerminated
	Finished
)

// symbol returns the state's short name in the specification.
func (s State) symbol() string {
	return [...]string{"N", "Q", "Kq", "S", "T1", "T2", "R", "D", "F"}[s]
}

// String returns the state in words.
func (s State) String() string {
	return [...]string{
		"unknown", "queued", "termination queued", "setup", "termination requested",
		"terminating", "terminating (runtime only)", "terminated", "finished",
	}[s]
}

// Terminating reports whether the pod's containers have to stop and may be running.
func (s State) Terminating() bool {
	return s == QueuedTermination || s >= TerminationRequested && s <= RuntimeOnly
}

// Terminated reports whether no container of the pod runs or will.
func (s State) Terminated() bool { return s == HasTerminated || s == Finished }

// Finished reports whether everything held for the pod is released.
func (s State) Finished() bool { return s == Finished }

// MarshalText writes the state in words.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *State) UnmarshalText(text []byte) error {
	for known := Unknown; known <= Finished; known++ {
		if known.String() == string(text) {
			*s = known
			return nil
		}
	}
	return fmt.Errorf("%q is not a state of a pod", text)
}

func (r *record) state() State {
	switch {
	case r == nil:
		return Unknown
	case r.finished:
		return Finished
	case r.terminated:
		return HasTerminated
	case r.terminating && r.pod() == nil:
		return RuntimeOnly
	case r.startedTerminating:
		return InTermination
	case r.terminating && r.started:
		return TerminationRequested
	case r.terminating:
		return QueuedTermination
	case r.started:
		return InSetup
	default:
		return Queued
	}
}

func (r *record) facts() Facts {
	f := Facts{
		Started: r.begun(), TerminationRequested: r.terminating, Deleted: r.deleted, Evicted: r.evicted,
		Terminated: r.terminated, Finished: r.finished, GracePeriodSeconds: r.grace,
	}
	if r.rare != nil {
		f.Amend = r.rare.statusFunc
	}
	return f
}

// bits packs the boolean facts.
func (f Facts) bits() uint8 {
	var b uint8
	for i, set := range [...]bool{f.Started, f.TerminationRequested, f.Deleted, f.Evicted, f.Terminated, f.Finished, f.Amend != nil} {
		if set {
			b |= 1 << i
		}
	}
	return b
}
