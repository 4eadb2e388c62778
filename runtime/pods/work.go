package pods

import (
	"cmp"
	"context"
	"fmt"
	goruntime "runtime"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods/internal/worklimit"
)

// Bounds of how long a call that is not answered keeps its slot (spec/runtime.md 24.3).
const (
	leastPatience = 2 * time.Second
	mostPatience  = 10 * time.Second
)

// newWork makes the limiter of runtime work.
func (m *Manager) newWork() {
	limit := cmp.Or(m.options.MaxRuntimeWork, max(4, 2*goruntime.GOMAXPROCS(0)))
	m.work = worklimit.New(
		worklimit.Rules{Limit: limit, LeastPatience: leastPatience, MostPatience: mostPatience, Opens: true},
		m.options.Clock, m.metrics.work)
}

// makes calls the runtime to make or start something of the pod, once it is the pod's turn
// (spec/runtime.md 24).
func (s *podSync) makes(ctx context.Context, method, container string, call func() error) error {
	return s.m.work.Do(ctx, worklimit.Job{
		Pod: s.pod.UID, Call: method, Container: container, Name: problem.Of(s.pod.Namespace, s.pod.Name, s.pod.UID), Place: s.began,
		First: podinfo.Critical(s.pod) || hasRun(s.status),
	}, call)
}

// hasRun reports whether a container of the pod was ever started: what starts now is then a
// restart.
func hasRun(status *runtime.PodStatus) bool {
	if status == nil {
		return false
	}
	for _, c := range status.Containers {
		if c.State != runtime.Created {
			return true
		}
	}
	return false
}

// Work is a call under way that makes or starts a sandbox or a container.
type Work struct {
	Pod types.UID
	// Call is RunPodSandbox, CreateContainer or StartContainer.
	Call string
	// Container is empty for a sandbox.
	Container string
	// Since is when the call was made, or when it began to wait for its turn.
	Since time.Time
	// Waiting is true as long as other calls come first.
	Waiting bool
	// Late is true if the runtime has not answered for so long that the call is no
	// longer counted as work (spec/runtime.md 24.3).
	Late bool
}

// String describes the call in a sentence.
func (w Work) String() string {
	what := w.Call
	if w.Container != "" {
		what += " of container " + w.Container
	}
	since := w.Since.UTC().Format(time.RFC3339)
	switch {
	case w.Waiting:
		return fmt.Sprintf("%s waits for its turn since %s", what, since)
	case w.Late:
		return fmt.Sprintf("the runtime has not answered %s since %s", what, since)
	}
	return fmt.Sprintf("%s is under way since %s", what, since)
}

// Work returns the calls that make and start something at the moment, and those that
// wait for their turn, in the order in which they were asked for. It does not block.
func (m *Manager) Work() []Work {
	calls := m.work.Calls()
	out := make([]Work, 0, len(calls))
	for _, c := range calls {
		out = append(out, Work{
			Pod: c.Pod, Call: c.Call, Container: c.Container, Since: c.Since, Waiting: c.Waiting, Late: c.Late,
		})
	}
	return out
}

// Problems returns the calls and pulls that have waited for their turn for too long, and the calls about
// files of the node that have not returned (IN2). It does not block.
func (m *Manager) Problems() []problem.Problem {
	now := m.options.Clock.Now()
	out := m.files.calls.Problems()
	for _, c := range m.work.Calls() {
		if !c.Waiting || now.Sub(c.Since) < problem.TurnLimit {
			continue
		}
		out = append(out, problem.Problem{
			Kind: problem.Pod, Severity: problem.Listed, Name: c.Name, UID: c.Pod, Since: c.Since,
			Waits:  "the turn of its " + c.Call + ": the calls of other pods come first",
			Advice: "look at what keeps the container runtime from answering them sooner, or raise Pods.MaxRuntimeWork",
		})
	}
	for _, c := range m.puller.Turns() {
		if !c.Waiting || now.Sub(c.Since) < problem.PullLimit {
			continue
		}
		out = append(out, problem.Problem{
			Kind: problem.RuntimeCall, Severity: problem.Listed, Name: c.Name, Since: c.Since,
			Waits:  "the turn of its pull: other pulls come first",
			Advice: "look at the pulls under way, or raise Pods.MaxParallelImagePulls",
		})
	}
	return out
}
