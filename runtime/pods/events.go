package pods

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// podEvent raises an event on the pod.
func (m *Manager) podEvent(pod *v1.Pod, eventtype, reason, format string, args ...any) {
	m.options.Events.Eventf(podRef(pod), eventtype, reason, format, args...)
}

// hideID takes the container's ID out of a text for people: IDs differ from
// start to start, so equal events would not be equal (spec/runtime.md 8.2).
func hideID(text, id, name string) string {
	if id == "" {
		return text
	}
	return strings.ReplaceAll(text, id, name)
}
