package events

import (
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

// pop returns the oldest event, nil if there is none, and how many were dropped since the
// last pop.
func (q *queue) pop() (event *v1.Event, dropped int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	dropped, q.dropped = q.dropped, 0
	if len(q.waiting) == 0 {
		q.waiting = nil
		return nil, dropped
	}
	event = q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	return event, dropped
}
