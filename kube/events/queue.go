package events

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
)

// queue holds events until they are sent, in order. It is bounded: the oldest make room.
type queue struct {
	limit int
	// more has one slot, which is filled when an event has been added.
	more chan struct{}

	mu      sync.Mutex
	waiting []*v1.Event
	dropped int
}

func newQueue(limit int) *queue {
	return &queue{limit: limit, more: make(chan struct{}, 1)}
}

func (q *queue) push(event *v1.Event) {
	q.mu.Lock()
	if len(q.waiting) >= q.limit {
		q.waiting[0] = nil
		q.waiting = q.waiting[1:]
		q.dropped++
	}
	q.waiting = append(q.waiting, event)
	q.mu.Unlock()
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// drop counts an event that was popped and is not sent.
func (q *queue) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropped++
}

// pop returns the oldest event of a namespace that does not wait, nil if there is none, and how many
// were dropped since the last pop.
func (q *queue) pop(waits func(namespace string) bool) (event *v1.Event, dropped int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	dropped, q.dropped = q.dropped, 0
	i := slices.IndexFunc(q.waiting, func(e *v1.Event) bool { return !waits(e.Namespace) })
	switch {
	case len(q.waiting) == 0:
		q.waiting = nil
		return nil, dropped
	case i < 0:
		return nil, dropped
	}
	event = q.waiting[i]
	copy(q.waiting[1:i+1], q.waiting[:i])
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	return event, dropped
}
