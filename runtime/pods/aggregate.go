package pods

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/repeats"
)

// aggregator passes an event on when it occurs for the first time and then when it
// has occurred 2, 4, 8... times, with that number in its text: a pod that waits for
// days reports that a few dozen times. Events that differ in text, reason or object
// are different events.
type aggregator struct {
	next podinfo.EventRecorder
	seen *repeats.Table[eventKey]
}

type eventKey struct {
	pod                               types.UID
	namespace, name                   string
	field, eventtype, reason, message string
}

func newAggregator(next podinfo.EventRecorder, c clock.PassiveClock) *aggregator {
	return &aggregator{next: next, seen: repeats.New[eventKey](c, 0)}
}

// Eventf implements [podinfo.EventRecorder].
func (a *aggregator) Eventf(object k8sruntime.Object, eventtype, reason, format string, args ...any) {
	ref, ok := object.(*v1.ObjectReference)
	if !ok {
		a.next.Eventf(object, eventtype, reason, format, args...)
		return
	}
	message := fmt.Sprintf(format, args...)
	o := a.seen.Note(eventKey{ref.UID, ref.Namespace, ref.Name, ref.FieldPath, eventtype, reason, message})
	switch {
	case o.Count == 1:
		a.next.Eventf(object, eventtype, reason, "%s", message)
	case o.Due:
		a.next.Eventf(object, eventtype, reason, "%s (x%d over %s)", message, o.Count, o.Over.Round(time.Second))
	}
}
