package probe

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// Explanation says where one probe stands. It encodes as JSON.
type Explanation struct {
	Container string `json:"container"`
	// Kind is Startup, Liveness or Readiness.
	Kind string `json:"kind"`
	// State is waiting, queued or running.
	State string `json:"state"`
	// Result is what counts: Success, Failure or Unknown.
	Result string `json:"result"`
	// LastResult is the last executed result, and RunLength how often it came in a row; empty and 0
	// if the count starts again.
	LastResult string `json:"lastResult,omitempty"`
	RunLength  int32  `json:"runLength,omitempty"`
	// Broken: the last run could not be executed, and LastOutput says why. Result is from before it.
	Broken bool `json:"broken,omitempty"`
	// LastRun is when the probe last ran; zero if it has not.
	LastRun time.Time `json:"lastRun,omitzero"`
	// LastOutput is what the last run returned, cut.
	LastOutput string `json:"lastOutput,omitempty"`
	// NextDue is when the probe is looked at next.
	NextDue time.Time `json:"nextDue"`
	// Held says why the probe is not executed now; empty if it is.
	Held string `json:"held,omitempty"`
}

// Explain returns a pod's probes in the order they were added; nil if there are none.
func (m *Manager) Explain(uid types.UID) []Explanation {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry := m.pods[uid]
	if entry == nil {
		return nil
	}
	out := make([]Explanation, 0, len(entry.workers))
	for _, w := range entry.workers {
		result, _ := m.results[w.kind].get(w.state.ID)
		e := Explanation{
			Container: w.name, Kind: w.kind.String(), State: w.stage.String(), Result: result.String(),
			LastOutput: w.output, Broken: w.failed, NextDue: m.wall(w.due), Held: w.why,
		}
		if w.state.Run > 0 {
			e.LastResult, e.RunLength = w.state.Last.String(), w.state.Run
		}
		if w.executed > 0 {
			e.LastRun = m.wall(w.executed)
		}
		out = append(out, e)
	}
	return out
}

// String returns the name of the stage as explanations show it.
func (s stage) String() string {
	switch s {
	case queued:
		return "queued"
	case running:
		return "running"
	case ended:
		return "ended"
	default:
		return "waiting"
	}
}

// Status returns what a pod's status should say about a probe of a running container, or [None] if
// the container has no probe of that kind (1.2). It also answers before the pod has workers, from
// what was kept from before a restart (8.8).
func (m *Manager) Status(kind Kind, pod *v1.Pod, container string, id runtime.ContainerID) Result {
	c := specOf(pod, container)
	if c == nil {
		return None
	}
	p := probesOf(c)[kind]
	if p == nil {
		return None
	}
	if r, ok := m.results[kind].get(id); ok {
		return r
	}
	m.mu.Lock()
	entry := m.pods[pod.UID]
	bound := entry != nil && entry.find(container, kind) != nil && !entry.find(container, kind).state.ID.IsZero()
	m.mu.Unlock()
	if bound {
		return Unknown // it belongs to another run of the container
	}
	period := func() time.Duration { return m.timing(pod, container, kind, p).Period } // as its worker will have it
	if b := m.before(pod, container, kind, p, period, id); b != nil {
		return b.Result
	}
	return Unknown
}
