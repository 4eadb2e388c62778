package machine

import "time"

// queue is a FIFO of ready records, linked through them.
type queue struct {
	head, tail *record
}

func (q *queue) push(r *record) {
	r.prev, r.next = q.tail, nil
	if q.tail == nil {
		q.head = r
	} else {
		q.tail.next = r
	}
	q.tail = r
}

func (q *queue) remove(r *record) {
	if r.prev == nil {
		q.head = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		q.tail = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.prev, r.next = nil, nil
}

// timers is a binary heap of scheduled records, earliest first. Every record
// knows its place, so that moving and removing one is quick.
type timers struct {
	heap []timer
}

// timer has a copy of the due time, so that comparing does not touch the records.
type timer struct {
	due time.Duration
	rec *record
}

func (t *timers) less(i, j int) bool {
	a, b := t.heap[i], t.heap[j]
	return a.due < b.due || a.due == b.due && a.rec.uid < b.rec.uid
}

func (t *timers) set(r *record, due time.Duration) {
	r.due = due
	if r.dueSlot == 0 {
		t.heap = append(t.heap, timer{due, r})
		r.dueSlot = int32(len(t.heap)) //nolint:gosec // bounded by the number of pods
		t.up(len(t.heap) - 1)
		return
	}
	i := int(r.dueSlot) - 1
	t.heap[i].due = due
	t.down(i)
	t.up(i)
}

func (t *timers) remove(r *record) {
	i, last := int(r.dueSlot)-1, len(t.heap)-1
	r.dueSlot = 0
	if i != last {
		t.heap[i] = t.heap[last]
		t.heap[i].rec.dueSlot = int32(i) + 1 //nolint:gosec // as above
	}
	t.heap[last] = timer{}
	t.heap = t.heap[:last]
	if i != last {
		t.down(i)
		t.up(i)
	}
}

func (t *timers) swap(i, j int) {
	t.heap[i], t.heap[j] = t.heap[j], t.heap[i]
	t.heap[i].rec.dueSlot = int32(i) + 1 //nolint:gosec // as above
	t.heap[j].rec.dueSlot = int32(j) + 1 //nolint:gosec // as above
}

func (t *timers) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !t.less(i, parent) {
			return
		}
		t.swap(i, parent)
		i = parent
	}
}

func (t *timers) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(t.heap) {
			return
		}
		if child+1 < len(t.heap) && t.less(child+1, child) {
			child++
		}
		if !t.less(child, i) {
			return
		}
		t.swap(i, child)
		i = child
	}
}
