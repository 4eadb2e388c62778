package podworkers

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers/internal/machine"
)

// Explanation says where a pod stands and what it waits for. It encodes as JSON.
type Explanation struct {
	UID       types.UID `json:"uid"`
	Name      string    `json:"name"`
	Namespace string    `json:"namespace"`
	Static    bool      `json:"static,omitempty"`
	State     State     `json:"state"`
	// Since is when the pod entered State.
	Since time.Time `json:"since"`
	// WaitingFor says in words what has to happen next.
	WaitingFor string `json:"waitingFor"`
	// LastError of a call in this state, empty after a success.
	LastError string `json:"lastError,omitempty"`
	// Failures is the number of failed calls in a row.
	Failures int `json:"failures,omitempty"`
	// NextWakeUp is when the pod is synced again without an event; zero if nothing
	// is scheduled. NextWakeUpReason says why.
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
	From   State     `json:"from"`
	To     State     `json:"to"`
	Reason string    `json:"reason"`
	// Count is how often the step was repeated in a row; At is the first time.
	Count int `json:"count"`
}

// Explain says where the pod stands, and whether it is known.
func (w *Workers) Explain(uid types.UID) (Explanation, bool) {
	w.mu.Lock()
	e, ok := w.machine.Explain(uid)
	now := w.read()
	w.mu.Unlock()
	if !ok {
		return Explanation{}, false
	}
	return w.explanation(&e, now), true
}

// Snapshot explains every known pod, in order of UID. It copies under the lock
// and formats outside of it.
func (w *Workers) Snapshot() []Explanation {
	w.mu.Lock()
	all := w.machine.Snapshot()
	now := w.read()
	w.mu.Unlock()
	slices.SortFunc(all, func(a, b machine.Explanation) int { return cmp.Compare(a.UID, b.UID) })
	out := make([]Explanation, 0, len(all))
	for i := range all {
		out = append(out, w.explanation(&all[i], now))
	}
	return out
}

func (w *Workers) explanation(e *machine.Explanation, now reading) Explanation {
	out := Explanation{
		UID: e.UID, Name: e.Name, Namespace: e.Namespace, Static: e.Static,
		State: e.State, Since: now.at(e.Since), WaitingFor: waitsFor(e, now),
		Failures:             e.Attempts,
		TerminationRequested: e.Terminating, Deleted: e.Deleted, Evicted: e.Evicted, RestartRequested: e.Restart,
		GracePeriodSeconds: e.Grace,
	}
	if w.options.Doing != nil {
		if doing := w.options.Doing(e.UID); len(doing) > 0 {
			out.WaitingFor += ": " + strings.Join(doing, "; ")
		}
	}
	if e.LastErr != nil {
		out.LastError = e.LastErr.Error()
	}
	if e.Scheduled {
		out.NextWakeUp, out.NextWakeUpReason = now.at(e.Due), e.Why.String()
	}
	for _, t := range e.Transitions {
		out.Transitions = append(out.Transitions, Transition{
			At: now.at(t.At), From: t.From, To: t.To, Reason: t.Reason.String(), Count: t.Count,
		})
	}
	return out
}
