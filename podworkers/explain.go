package podworkers

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Explanation says where a pod stands and what it waits for. It encodes as JSON.
type Explanation struct {
	UID       types.UID `json:"uid"`
	Name      string    `json:"name"`
	Namespace string    `json:"namespace"`
	Static    bool      `json:"static,omitempty"`
	// State is queued, setup, terminating, terminated or finished.
	State string `json:"state"`
	// Since is when the pod entered State.
	Since time.Time `json:"since"`
	// WaitingFor says in words what has to happen next.
	WaitingFor string `json:"waitingFor"`
	// LastError of a call in this state, empty after a success.
	LastError string `json:"lastError,omitempty"`
	// Failures is the number of failed calls in a row.
	Failures int `json:"failures,omitempty"`
	// NextWakeUp is when the pod is looked at again by itself; zero if nothing
	// is scheduled. NextWakeUpReason says why then.
	NextWakeUp       time.Time `json:"nextWakeUp,omitzero"`
	NextWakeUpReason string    `json:"nextWakeUpReason,omitempty"`

	TerminationRequested bool `json:"terminationRequested,omitempty"`
	Deleted              bool `json:"deleted,omitempty"`
	Evicted              bool `json:"evicted,omitempty"`
	RestartRequested     bool `json:"restartRequested,omitempty"`
	// GracePeriodSeconds is 0 until it is known.
	GracePeriodSeconds int64 `json:"gracePeriodSeconds,omitempty"`

	// Transitions are the last 50, oldest first. Snapshot leaves them out.
	Transitions []Transition `json:"transitions,omitempty"`
}

// Transition is one step in a pod's life.
type Transition struct {
	At     time.Time `json:"at"`
	From   string    `json:"from"`
	To     string    `json:"to"`
	Reason string    `json:"reason"`
	// Count is how often the same step came in a row; At is the first time.
	Count int `json:"count"`
}

// Explain says where the pod stands, and whether it is known at all.
func (w *Workers) Explain(uid types.UID) (Explanation, bool) { return Explanation{}, false }

// Snapshot returns all records, sorted by UID.
func (w *Workers) Snapshot() []Explanation { return nil }
