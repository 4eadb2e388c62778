package cleanup

import "github.com/podwright/podwright/internal/problem"

// stuck is a removal that fails.
type stuck struct {
	candidate
	failure
}

// noteStuck keeps what could not be removed for those who ask between passes. The turn is
// held.
func (h *Housekeeper) noteStuck() {
	var all []stuck
	for c, f := range h.failures {
		all = append(all, stuck{c, *f})
	}
	h.mu.Lock()
	h.stuck = all
	h.mu.Unlock()
}

// Problems returns what pods left behind and what could not be removed for long, however
// often it was tried (IN2).
func (h *Housekeeper) Problems() []problem.Problem {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.options.Clock.Now()
	var out []problem.Problem
	for _, s := range h.stuck {
		if now.Sub(s.since) < problem.RemovalLimit {
			continue
		}
		out = append(out, problem.Problem{
			Kind: problem.Removal, Severity: problem.Listed, Name: s.object, UID: s.PodUID, Since: s.since,
			Waits:  "the end of its removal (" + s.Step.String() + ")",
			Advice: "look at the container runtime, at mounts below the pod's folder, and at the volume manager; it is tried again, and other pods go on",
		}.Because(s.err))
	}
	return out
}
