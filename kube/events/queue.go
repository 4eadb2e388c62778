package events

import (
	"cmp"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

// outgoing is an event on its way to the server.
type outgoing struct {
	event *v1.Event
	// result is what is sent, nil until the event was compared with those before it.
	result *record.EventCorrelateResult
	// number tells its place among all events.
	number int64
	// tries counts the failures to store it. since is when the first of them was, or the last time that the server was away.
	tries int
	since time.Time
}

// queue holds events until they are sent, in order. It is bounded: the oldest make room.
type queue struct {
	limit int
	// more has one slot, which is filled when an event has been added.
	more chan struct{}

	mu      sync.Mutex
	waiting []*outgoing // by number
	last    int64
	dropped int
}

func newQueue(limit int) *queue {
	return &queue{limit: limit, more: make(chan struct{}, 1)}
}

func (q *queue) push(event *v1.Event) {
	q.mu.Lock()
	q.last++
	q.insert(&outgoing{event: event, number: q.last})
	q.mu.Unlock()
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// putBack returns a popped event to its place: before those of its namespace that wait, but an older event of
// another one makes room first.
func (q *queue) putBack(e *outgoing) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.insert(e)
}

// insert adds an event. If the queue is full, the oldest makes room. q.mu must be held.
func (q *queue) insert(e *outgoing) {
	at, _ := slices.BinarySearchFunc(q.waiting, e.number, func(w *outgoing, number int64) int { return cmp.Compare(w.number, number) })
	if len(q.waiting) < q.limit {
		q.waiting = slices.Insert(q.waiting, at, e)
		return
	}
	q.dropped++
	if at == 0 { // it is the oldest itself
		return
	}
	copy(q.waiting, q.waiting[1:at])
	q.waiting[at-1] = e
}

// drop counts an event that was popped and is not sent.
func (q *queue) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropped++
}

// pop returns the oldest event of the namespace whose turn is the earliest, nil if none has one, and how
// many were dropped since the last pop.
func (q *queue) pop(turn func(namespace string) (at time.Time, ok bool)) (event *outgoing, dropped int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	dropped, q.dropped = q.dropped, 0
	found, first := -1, time.Time{}
	for i, e := range q.waiting {
		if at, ok := turn(e.event.Namespace); ok && (found < 0 || at.Before(first)) {
			found, first = i, at
		}
		if found >= 0 && first.IsZero() {
			break
		}
	}
	if found < 0 {
		return nil, dropped
	}
	event = q.waiting[found]
	copy(q.waiting[1:found+1], q.waiting[:found])
	q.waiting[0] = nil
	if q.waiting = q.waiting[1:]; len(q.waiting) == 0 {
		q.waiting = nil
	}
	return event, dropped
}
