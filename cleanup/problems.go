package cleanup

import (
	"time"

	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/internal/timing"
)

// stuck is a removal that fails, or has not returned.
type stuck struct {
	candidate
	object string
	since  time.Time
	err    error
	// goesOn is the removal that has not returned; nil if the removal fails.
	goesOn *removal
}

// noteStuck keeps what could not be removed, for readers between passes. The turn is held.
func (h *Housekeeper) noteStuck() {
	var all []stuck
	for c, f := range h.failures {
		all = append(all, stuck{candidate: c, object: f.object, since: f.since, err: f.err})
	}
	for c, r := range h.underWay {
		if h.failures[c] == nil {
			all = append(all, stuck{candidate: c, object: r.action.Object.String(), since: r.since, goesOn: r})
		}
	}
	h.mu.Lock()
	h.stuck = all
	h.mu.Unlock()
}

// Problems returns leftovers of pods that could not be removed for a long time, despite many
// attempts or because the removal does not return, and running pods that an undecided source
// may want (IN2, ND2).
func (h *Housekeeper) Problems() []problem.Problem {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.options.Clock.Now()
	var out []problem.Problem
	for _, s := range h.stuck {
		if now.Sub(s.since) < problem.RemovalLimit || s.goesOn != nil && timing.Ended(s.goesOn.done) {
			continue
		}
		out = append(out, problem.Problem{
			Kind: problem.Removal, Severity: problem.Listed, Name: s.object, UID: s.PodUID, Since: s.since,
			Waits:  "the end of its removal (" + s.Step.String() + ")",
			Advice: "look at the container runtime, at mounts below the pod's folder, and at the volume manager; the removal is retried, and other pods are not affected",
		}.Because(s.err))
	}
	for uid, pod := range h.held {
		if now.Sub(pod.since) >= problem.SourceLimit {
			out = append(out, pod.problem(uid))
		}
	}
	return out
}
