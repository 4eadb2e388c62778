package eviction

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Conditions returns MemoryPressure, DiskPressure and PIDPressure, in this order, and then the
// conditions of [Policy.Own], as a node's status shows them; it is empty before the first pass. A
// condition that is not True is Unknown once a signal that it depends on has not been read for
// [Policy.Transition], a minute at least, or at once if it was True before. The list belongs to the
// caller.
func (m *Manager) Conditions() []v1.NodeCondition {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.conditions)
}

// Pressure returns the conditions that are true, in the order of Conditions.
func (m *Manager) Pressure() []v1.NodeConditionType {
	var out []v1.NodeConditionType
	for _, c := range m.Conditions() {
		if c.Status == v1.ConditionTrue {
			out = append(out, c.Type)
		}
	}
	return out
}

// Admit judges a new pod by the node's present conditions: a critical pod is always admitted, and
// memory pressure alone keeps out only BestEffort pods that do not tolerate it. message says why a
// pod is refused. Admit does not block.
func (m *Manager) Admit(pod *v1.Pod) (admitted bool, message string) {
	return admit(m.Pressure(), pod, m.options.Critical(pod))
}

// words are the texts of a condition.
type words struct {
	kind       v1.NodeConditionType
	bad, good  string
	badMessage string
	message    string
}

// words returns the texts of all conditions; said is what readings say about them.
func (p Policy) words(said map[v1.NodeConditionType]string) []words {
	all := []words{
		{v1.NodeMemoryPressure, "NodeHasInsufficientMemory", "NodeHasSufficientMemory", "the node is low on memory", "the node has sufficient memory available"},
		{v1.NodeDiskPressure, "NodeHasDiskPressure", "NodeHasNoDiskPressure", "the node is low on disk space or inodes", "the node has no disk pressure"},
		{v1.NodePIDPressure, "NodeHasInsufficientPID", "NodeHasSufficientPID", "the node is low on process IDs", "the node has sufficient process IDs available"},
	}
	for _, s := range p.Own {
		word := conditionWord(s.Condition)
		all = append(all, words{s.Condition, "NodeHas" + word, "NodeHasNo" + word, cmp.Or(said[s.Condition], s.Message), "there is enough of " + string(s.Name)})
	}
	return all
}

// publish records which conditions are true, and which are not known any more.
func (m *Manager) publish(v assessment, gaps map[Signal]gap) {
	now := metav1.NewTime(m.options.Clock.Now())
	unknown := m.options.Policy.unknown(m.conditions, gaps, now.Time) // only this goroutine sets conditions
	words := m.options.Policy.words(v.history.said)
	next := make([]v1.NodeCondition, len(words))
	changed := false
	m.mu.Lock()
	for i, w := range words {
		c := v1.NodeCondition{Type: w.kind, Status: v1.ConditionFalse, Reason: w.good, Message: w.message, LastHeartbeatTime: now, LastTransitionTime: now}
		if slices.Contains(v.Conditions, w.kind) {
			c.Status, c.Reason, c.Message = v1.ConditionTrue, w.bad, w.badMessage
		} else if why := unknown[w.kind]; why != "" {
			c.Status, c.Reason, c.Message = v1.ConditionUnknown, "SignalNotRead", why
		}
		switch {
		case len(m.conditions) > 0 && m.conditions[i].Status == c.Status:
			c.LastTransitionTime = m.conditions[i].LastTransitionTime
		case len(m.conditions) > 0 || c.Status == v1.ConditionTrue:
			changed = true
		}
		next[i] = c
	}
	m.conditions, m.gaps = next, gaps
	m.mu.Unlock()
	if changed && m.options.Changed != nil {
		m.options.Changed()
	}
}
