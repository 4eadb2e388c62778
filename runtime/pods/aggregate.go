package pods

import (
	"container/list"
	"fmt"
	"math/bits"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

const (
	// quietEvents is how long an event must not occur to count as new again.
	quietEvents = 10 * time.Minute
	// maxEvents bounds how many events are remembered.
	maxEvents = 4096
)

// aggregator passes an event on when it occurs for the first time and then when it
// has occurred 2, 4, 8... times, with that number in its text: a pod that waits for
// days reports that a few dozen times. Events that differ in text, reason or object
// are different events.
type aggregator struct {
	next  EventRecorder
	clock clock.PassiveClock

	// mu guards what follows. It is not held over next.
	mu   sync.Mutex
	seen map[eventKey]*list.Element
	// order has *eventCount values, the latest in front.
	order list.List
}

type eventKey struct {
	pod                               types.UID
	namespace, name                   string
	field, eventtype, reason, message string
}

type eventCount struct {
	key         eventKey
	count       uint64
	first, last time.Time
}

func newAggregator(next EventRecorder, c clock.PassiveClock) *aggregator {
	return &aggregator{next: next, clock: c, seen: map[eventKey]*list.Element{}}
}

// Eventf implements [EventRecorder].
func (a *aggregator) Eventf(object k8sruntime.Object, eventtype, reason, format string, args ...any) {
	ref, ok := object.(*v1.ObjectReference)
	if !ok {
		a.next.Eventf(object, eventtype, reason, format, args...)
		return
	}
	message := fmt.Sprintf(format, args...)
	count, since := a.count(eventKey{ref.UID, ref.Namespace, ref.Name, ref.FieldPath, eventtype, reason, message})
	switch {
	case count == 1:
		a.next.Eventf(object, eventtype, reason, "%s", message)
	case bits.OnesCount64(count) == 1:
		a.next.Eventf(object, eventtype, reason, "%s (x%d over %s)", message, count, since.Round(time.Second))
	}
}

// count notes one more occurrence of an event and returns how many there were, and
// over what time.
func (a *aggregator) count(key eventKey) (n uint64, since time.Duration) {
	now := a.clock.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.seen[key]
	if e == nil {
		e = a.order.PushFront(&eventCount{key: key, last: now})
		a.seen[key] = e
		if a.order.Len() > maxEvents {
			oldest := a.order.Remove(a.order.Back()).(*eventCount)
			delete(a.seen, oldest.key)
		}
	}
	a.order.MoveToFront(e)
	c := e.Value.(*eventCount)
	if c.count == 0 || now.Sub(c.last) >= quietEvents {
		c.count, c.first = 0, now
	}
	c.count++
	c.last = now
	return c.count, now.Sub(c.first)
}
