package cleanup

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/problem"
)

// stuck is a removal that did not succeed yet.
type stuck struct {
	step Step
	uid  types.UID
	name string
	// since is when the removal was first tried, err how it failed last; nil: it has not
	// failed.
	since time.Time
	err   error
}

// noteStuck keeps what a pass could not remove for those who ask between passes. The turn is
// held.
func (h *Housekeeper) noteStuck() {
	var all []stuck
	for c, f := range h.failures {
		if h.underWay[c] == nil {
			all = append(all, stuck{c.Step, c.PodUID, f.object, f.since, f.err})
		}
	}
	for c, r := range h.underWay {
		s := stuck{c.Step, c.PodUID, r.action.Object.String(), r.since, nil}
		if f := h.failures[c]; f != nil {
			s.since, s.err = f.since, f.err
		}
		all = append(all, s)
	}
	h.mu.Lock()
	h.stuck = all
	h.mu.Unlock()
}

// Problems returns what pods left behind and what could not be removed for long (IN2): the
// removal does not return, or fails whenever it is tried.
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
			Kind: problem.Removal, Severity: problem.Listed, Name: s.name, UID: s.uid, Since: s.since,
			Waits:  "the end of its removal (" + s.step.String() + ")",
			Advice: "look at the container runtime, at mounts below the pod's folder, and at the volume manager; it is tried again, and other pods go on",
		}.Because(s.err))
	}
	return out
}
