package probe

import (
	"fmt"

	"github.com/podwright/podwright/internal/problem"
)

// Problems returns the probes that have not returned although their time is over. Such a probe has
// failed, and does not run again for the same container until it returns (9.5).
func (m *Manager) Problems() []problem.Problem {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []problem.Problem
	for uid, p := range m.pods {
		for _, w := range p.workers {
			if w.lost == nil {
				continue
			}
			fate := "the probe counts as failed"
			if w.lost.id != w.state.ID && w.hung < maxHung {
				fate = "it was about an earlier run of the container"
			}
			out = append(out, problem.Problem{
				Kind: problem.Probe, Severity: problem.Listed, Name: problem.Of(p.namespace, p.name, uid), UID: uid,
				Since:  m.wall(w.lost.began),
				Waits:  fmt.Sprintf("the %s probe of container %s to return, after its timeout of %v", w.kind, w.name, w.lost.timeout),
				Advice: "look at the probe's handler, or for a command at the container runtime; " + fate,
			})
		}
	}
	return append(out, m.calls.Problems()...)
}
