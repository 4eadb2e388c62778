package pleg

import (
	"fmt"

	"github.com/podwright/podwright/internal/problem"
)

// Problems returns what keeps the runtime from being read: lists that fail or do not return, and
// pods that the runtime does not describe in time. A pod's trouble harms only that pod.
func (g *Generator) Problems() []problem.Problem {
	h := g.Health()
	var out []problem.Problem
	const advice = "look at the container runtime and its log; pods stay as they are meanwhile"
	if h.Err != nil {
		p := problem.Problem{
			Kind: problem.Reading, Severity: problem.Unhealthy, Name: "list", Since: h.LastList,
			Waits: "the container runtime to list its pods", Advice: advice,
		}
		if p.Since.IsZero() {
			p.Since = g.made
		}
		out = append(out, p.Because(h.Err))
	}
	for _, u := range h.Hung {
		out = append(out, problem.Problem{
			Kind: problem.Reading, Severity: problem.Listed, Name: problem.Of(u.Namespace, u.Name, u.UID), UID: u.UID, Since: u.Since,
			Waits:  fmt.Sprintf("the container runtime to describe the pod, which it did not in time %d times", u.Failures),
			Advice: advice,
		})
	}
	return out
}
