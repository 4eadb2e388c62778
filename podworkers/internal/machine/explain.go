package machine

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Explanation is what is known about one record.
type Explanation struct {
	UID                                               types.UID
	Namespace, Name                                   string
	Static                                            bool
	State                                             State
	Since                                             time.Duration
	Waiting                                           string
	LastErr                                           error
	Attempts                                          int
	Due                                               time.Duration
	Why                                               Why
	Terminating, Deleted, Evicted, Restart, Scheduled bool
	Grace                                             int64
	// StopGrace is how long the pod may take to stop, in seconds: Grace, or its spec's grace
	// period while Grace is 0. FormerGrace is the same for the pod whose name it waits for.
	StopGrace, FormerGrace int64
	// WantedSince is when a finished pod was asked to live again, or when it finished if
	// that was later.
	WantedSince time.Duration
	Transitions []Transition
	// Holds are the removals the pod waits for.
	Holds []Hold
}

// Transition is one history entry.
type Transition struct {
	At       time.Duration
	From, To State
	Reason   Reason
	Count    int
}

// Explain says where the pod stands.
func (m *Machine) Explain(uid types.UID) (Explanation, bool) {
	r := m.records[uid]
	if r == nil {
		return Explanation{}, false
	}
	e := m.explain(r)
	for _, h := range r.history {
		e.Transitions = append(e.Transitions, Transition{
			At: r.syncedAt + h.at(), From: h.from(), To: h.to(), Reason: h.why(), Count: h.count(),
		})
	}
	return e, true
}

// Snapshot explains every record, without transitions, in no particular order.
func (m *Machine) Snapshot() []Explanation {
	all := make([]Explanation, 0, len(m.records))
	for _, r := range m.records {
		all = append(all, m.explain(r))
	}
	return all
}

// Each calls f for every record, in no particular order, with its explanation without
// transitions and its call under way, nil if there is none.
func (m *Machine) Each(f func(e Explanation, c *Call)) {
	for _, r := range m.records {
		var c *Call
		if r.step == calling || r.step == viewing {
			c = r.call
		}
		f(m.explain(r), c)
	}
}

func (m *Machine) explain(r *record) Explanation {
	namespace, name := r.nameOf()
	e := Explanation{
		UID: r.uid, Namespace: namespace, Name: name, Static: r.static,
		State: r.state(), Since: r.since, Waiting: m.waiting(r),
		LastErr: r.lastErr, Attempts: int(r.attempts),
		Due: r.due, Why: r.why, Scheduled: r.dueSlot != 0,
		Terminating: r.terminating, Deleted: r.deleted, Evicted: r.evicted, Restart: r.restartRequested,
		Grace: r.grace, StopGrace: r.stopGrace(),
	}
	if r.rare != nil {
		e.FormerGrace, e.WantedSince = r.rare.formerGrace, max(r.rare.wantedAt, r.since)
	}
	if r.step == idle && !r.begun() && m.held(r) {
		e.Holds = slices.Clone(m.holds[r.uid])
	}
	return e
}

// waiting says in words what has to happen next.
func (m *Machine) waiting(r *record) string {
	switch r.step {
	case ready:
		return "the workers to get to it"
	case observing:
		return "a look at the runtime"
	case viewing:
		return "a view newer than the last call"
	case calling:
		what := r.call.Phase.Method() + " to return"
		if r.call.cause != CauseNone {
			what += ", cancelled because " + causeClause(r.call.cause)
		}
		return what
	}
	switch {
	case r.finished && r.restartRequested:
		return "the next housekeeping pass, to begin a new life"
	case r.finished:
		return "the source to drop the pod"
	case !r.begun() && m.held(r):
		return "the removal of its previous life"
	case m.stopping:
		return "nothing: the workers are stopping"
	case r.why == WhyNameTaken:
		return "the full name, " + m.nameHolder(r)
	case r.why == WhyNameRunning:
		return "another pod of its full name to stop in the runtime"
	case r.why == WhyViewUnknown:
		return "the first view of the runtime"
	case r.why == WhyLookFailed:
		return "a look at the runtime that does not fail"
	case r.why == WhyResync:
		return "an update or the next resync"
	case r.why == WhyRequeue:
		return "an update or the time that its last step named"
	default:
		return "the next attempt"
	}
}

func (m *Machine) nameHolder(r *record) string {
	n := m.names[r.rare.fullName]
	if n.owner != nil {
		return fmt.Sprintf("held by pod %s", n.owner.uid)
	}
	if first := m.turn(n); first != nil {
		return fmt.Sprintf("pod %s comes first", first.uid)
	}
	return "which is free"
}

// Method returns the name of the syncer's method.
func (p Phase) Method() string {
	return [...]string{"SyncPod", "SyncTerminatingPod", "SyncTerminatingRuntimePod", "SyncTerminatedPod"}[p]
}

// String returns the phase in words.
func (p Phase) String() string {
	return [...]string{"setup", "terminating", "terminating-runtime", "terminated"}[p]
}

// causeClause returns the cause as the end of a sentence.
func causeClause(c Cause) string {
	return [...]string{
		"nothing happened", "the pod is terminating", "the grace period got shorter", "the pod is no longer desired",
		"the workers are stopping", "it took longer than its limit",
	}[c]
}

// String returns the reason in words.
func (w Why) String() string {
	return [...]string{
		"", "resync", "back-off", "network not ready", "the error names the time", "the last step named the time", "full name taken",
		"full name running", "view unknown", "look at the runtime failed", "call deadline", "report of a call that ignores its cancellation",
	}[w]
}

// Stats are the figures of the gauges.
type Stats struct {
	InPhase       [Terminated + 1]int
	WaitingStatic int
	Stuck         int
	Records       int
}

// Stats returns the current figures.
func (m *Machine) Stats() Stats {
	return Stats{InPhase: m.inPhase, WaitingStatic: m.waitingStatic, Stuck: m.stuck, Records: len(m.records)}
}
