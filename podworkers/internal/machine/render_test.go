package machine

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// print writes the effects of the last event.
func (s *scenario) print() {
	for i := range s.fx {
		if line := s.effect(&s.fx[i]); line != "" {
			s.printf("%s", line)
		}
	}
	s.fx = s.fx[:0]
}

func (s *scenario) effect(e *Effect) string {
	switch e.Kind {
	case EffectStartCall:
		return "call " + describe(e.Call)
	case EffectCancelCall:
		return fmt.Sprintf("cancel %s: %s", e.UID, causeClause(e.Cause))
	case EffectCloseCompletion:
		for name, ch := range s.channels {
			if e.Completion.Ch == ch {
				return fmt.Sprintf("close %s: %s", name, e.Completed)
			}
		}
	case EffectSchedule:
		return fmt.Sprintf("wake %s in %v: %s", e.UID, e.At-s.now, e.Why)
	case EffectForget:
		return fmt.Sprintf("forget %s", e.UID)
	case EffectRefresh:
		return fmt.Sprintf("refresh %s", e.UID)
	case EffectObserve:
		return fmt.Sprintf("look at the runtime for %s", e.UID)
	case EffectWarn:
		return fmt.Sprintf("event %s: %s", e.UID, [...]string{"FailedSync", "SyncPanic", "SyncStuck"}[e.Warning])
	case EffectDrained:
		return "drained"
	case EffectCutRemoval:
		return fmt.Sprintf("%s waits for a removal", e.UID)
	case EffectUnschedule:
		if s.verbose {
			return fmt.Sprintf("no wake %s", e.UID)
		}
	case EffectMetric:
		name := [...]string{"duration", "start", "containers", "back-off", "state", "cancel", "panic"}[e.Metric]
		label := map[Metric]string{
			MetricDuration: fmt.Sprint([]string{"sync", "update", "create", "kill", "terminated"}[min(e.Label, 4)]),
			MetricBackOff:  Phase(min(e.Label, 3)).String(), MetricPanic: Phase(min(e.Label, 3)).String(),
			MetricState: State(e.Label).String(), MetricCancel: causeClause(Cause(min(e.Label, 5))),
		}[e.Metric]
		return strings.TrimSpace(fmt.Sprintf("metric %s %v %s", name, e.Value, label))
	}
	return ""
}

func describe(c *Call) string {
	line := fmt.Sprintf("%s %s", c.Phase.Method(), c.UID)
	if c.Phase == Setup {
		line += " type=" + [...]string{"sync", "update", "create", "kill"}[c.Type]
	}
	if c.Phase == TerminatingRuntime {
		line += " name=" + c.Running.Name
	}
	if c.Pod != nil && c.Pod.Spec.Containers[0].Image != "" {
		line += " image=" + c.Pod.Spec.Containers[0].Image
	}
	if c.Mirror != nil && c.Phase == Setup {
		line += " mirror=" + string(c.Mirror.UID)
	}
	if c.Phase == Terminating {
		if c.Grace == nil {
			line += " grace=nil"
		} else {
			line += fmt.Sprintf(" grace=%d", *c.Grace)
		}
	}
	if reason := statusOf(c.StatusFunc); reason != "" {
		line += " status=" + reason
	}
	if c.HasStart {
		line += fmt.Sprintf(" at=%v", c.Start)
	}
	if c.NeedsView && c.After > 0 {
		line += " view=fresh"
	}
	if c.Record {
		line += fmt.Sprintf(" record=%07b/%d", c.Facts.bits(), c.Facts.GracePeriodSeconds)
	}
	return line
}

// table writes the predicates of section 11 for every UID seen so far, and for
// one that is unknown.
func (s *scenario) table() {
	s.printf("%-8s %-6s known-terminated could-run finished requested terminating remove-runtime remove-content name-terminating", "uid", "state")
	var uids []types.UID
	for i := range s.lives {
		uids = append(uids, s.lives[i].uid)
	}
	slices.Sort(uids)
	for _, uid := range append(uids, "unknown") {
		r := s.m.records[uid]
		name := false
		if r != nil && r.static {
			if n := s.m.names[r.rare.fullName]; n != nil && n.owner == r {
				name = s.m.StaticNameTerminating(r.rare.fullName)
			}
		}
		s.printf("%-8s %-6s %-16v %-9v %-8v %-9v %-11v %-14v %-14v %v", uid, r.state().symbol(),
			yes(s.m.KnownTerminated(uid)), yes(s.m.CouldHaveRunningContainers(uid)), yes(s.m.ShouldBeFinished(uid)),
			yes(s.m.IsTerminationRequested(uid)), yes(s.m.ContainersShouldBeTerminating(uid)), yes(s.m.RuntimeShouldBeRemoved(uid)),
			yes(s.m.ContentShouldBeRemoved(uid)), yes(name))
	}
}

func yes(b bool) string {
	if b {
		return "T"
	}
	return "F"
}

func (s *scenario) explainPod(uid types.UID) {
	e, ok := s.m.Explain(uid)
	if !ok {
		s.printf("unknown")
		return
	}
	s.printf("%s, waiting for %s", e.State, e.Waiting)
	if e.Attempts > 0 {
		s.printf("%d failures, last %v", e.Attempts, e.LastErr)
	}
	if e.Scheduled {
		s.printf("next look in %v: %s", e.Due-s.now, e.Why)
	}
	for _, t := range e.Transitions {
		line := fmt.Sprintf("at %v %s -> %s: %s", t.At, t.From.symbol(), t.To.symbol(), t.Reason)
		if t.Count > 1 {
			line += fmt.Sprintf(" (%d times)", t.Count)
		}
		s.printf("%s", line)
	}
}
