package probe

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/repeats"
	"github.com/podwright/podwright/internal/restartpolicy"
)

// explainOutput is how much of an output is kept for explanations.
const explainOutput = 256

// complaint is what was last reported about a probe's failures (9.9).
type complaint struct {
	reason, text string
	seen         uint64
}

// due counts a failure and returns whether to report it: the first time, when the text changes, and
// at doubling counts.
func (c *complaint) due(reason, text string) bool {
	if c.reason != reason || c.text != text {
		*c = complaint{reason: reason, text: text}
	}
	c.seen++
	return repeats.Due(c.seen)
}

// report counts an outcome and returns the event it leads to (4.1). The caller holds
// the lock.
func (m *Manager) report(w *worker, out Outcome, err error) effects {
	var reason, text string
	switch {
	case err != nil:
		w.counts[Unknown]++
		reason, text = "Unhealthy", fmt.Sprintf("%s probe could not be executed: %v", w.kind, err)
	case out.Result != Success && out.Result != Failure:
		w.counts[Unknown]++
	case out.Result == Failure:
		w.counts[Failure]++
		reason, text = "Unhealthy", fmt.Sprintf("%s probe failed: %s", w.kind, out.Output)
	case out.Warning:
		w.counts[Success]++
		reason, text = "ProbeWarning", fmt.Sprintf("%s probe warning: %s", w.kind, out.Output)
	default:
		w.counts[Success]++
		w.complaint = nil
	}
	if reason == "" {
		return nil
	}
	if w.complaint == nil {
		w.complaint = &complaint{}
	}
	due, every := w.complaint.due(reason, cut(text, explainOutput)), m.options.EveryEvent
	if !due && !every {
		return nil
	}
	if n := w.complaint.seen; n > 1 && !every {
		text = fmt.Sprintf("%s (%d times in a row)", text, n)
	}
	p, name := w.pod, w.name
	return effects{func() { m.event(p, name, reason, text) }}
}

// event emits an event for a container.
func (m *Manager) event(p *podEntry, container, reason, text string) {
	ref := &v1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: p.namespace, Name: p.name, UID: p.uid,
		FieldPath: "spec.containers{" + container + "}",
	}
	if view, ok := m.options.Pods.View(p.uid); ok {
		ref.ResourceVersion = view.Pod.ResourceVersion
		for i := range view.Pod.Spec.InitContainers {
			if c := &view.Pod.Spec.InitContainers[i]; c.Name == container && restartpolicy.IsSidecar(c) {
				ref.FieldPath = "spec.initContainers{" + container + "}"
			}
		}
	}
	m.options.Events.Eventf(ref, v1.EventTypeWarning, reason, "%s", text)
}

// took records how long a probe that did not fail took (10.1).
func (m *metrics) took(ctx context.Context, kind Kind, took time.Duration) {
	m.duration.Record(ctx, took.Seconds(), m.kinds[kind]...)
}
