package podinfo

import (
	"fmt"
	"strings"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// EventRecorder receives events, in the shape of client-go's recorder. object is a *v1.Pod, or a
// *v1.ObjectReference to a pod (with a field path to refer to a container) or to the node. Eventf
// is called from many goroutines at once and must not block.
type EventRecorder interface {
	Eventf(object apiruntime.Object, eventtype, reason, messageFmt string, args ...any)
}

// DiscardEvents is an [EventRecorder] that drops every event.
type DiscardEvents struct{}

// Eventf implements [EventRecorder].
func (DiscardEvents) Eventf(apiruntime.Object, string, string, string, ...any) {}

// NodeReference returns the object of an event about a node. Its UID is the node's
// name, which is how events about nodes are found.
func NodeReference(name string) *v1.ObjectReference {
	return &v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(name)}
}

// eventLines is how many lines of an error an event carries.
const eventLines = 5

// EventText returns the text of an error for an event: of an error that joins many, only the first few
// and how many more there are.
func EventText(err error) string {
	lines := strings.Split(err.Error(), "\n")
	if more := len(lines) - eventLines; more > 0 {
		lines = append(lines[:eventLines], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// maxMessage is how long a message for users may be: as long as the note of an event at an API server.
const maxMessage = 1024

// Message returns a text as events and statuses show it: of a text longer than 1 KiB, which quotes something
// long from a manifest or a runtime, its beginning and its end, where the reason is (spec/runtime.md 22.4).
func Message(text string) string {
	const mark = " ... "
	if len(text) <= maxMessage {
		return text
	}
	half := (maxMessage - len(mark)) / 2
	tail := len(text) - half
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return Cut(text, half) + mark + text[tail:]
}

// Cut shortens a text to at most limit bytes without splitting a character.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
