package pods

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// podEvent raises an event on the pod.
func (m *Manager) podEvent(pod *v1.Pod, eventtype, reason, format string, args ...any) {
	message := hideID(fmt.Sprintf(format, args...), "", pod.Name)
	m.options.Events.Eventf(podRef(pod), eventtype, reason, "%s", message)
}

// killFailed raises the event of a kill that failed.
func (m *Manager) killFailed(k podKill, err error) {
	message := err.Error()
	for _, c := range k.containers {
		message = strings.ReplaceAll(message, c.id, c.name)
	}
	m.podEvent(k.pod, v1.EventTypeWarning, "FailedKillPod", "Error killing pod: %s", message)
}

// idLength is how many hex digits a container ID has at the common runtimes.
const idLength = 64

// hideID removes container IDs from a message. IDs differ from start to start, so with
// them equal events would not be equal (spec/runtime.md 8.2). It hides the given ID,
// if any, and everything that looks like one, as in "is reserved for ...". Digests
// stay.
func hideID(text, id, name string) string {
	if id != "" {
		text = strings.ReplaceAll(text, id, name)
	}
	var out strings.Builder
	for len(text) > 0 {
		n := strings.IndexFunc(text, func(r rune) bool { return !isHex(r) })
		if n < 0 {
			n = len(text)
		}
		if word := text[:n]; n == idLength && !strings.HasSuffix(out.String(), ":") {
			out.WriteString(name)
		} else {
			out.WriteString(word)
		}
		text = text[n:]
		n = strings.IndexFunc(text, isHex)
		if n < 0 {
			n = len(text)
		}
		out.WriteString(text[:n])
		text = text[n:]
	}
	return out.String()
}

func isHex(r rune) bool { return '0' <= r && r <= '9' || 'a' <= r && r <= 'f' }
