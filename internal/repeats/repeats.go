package repeats

import (
	"container/list"
	"math/bits"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// Reminder is how long an event that goes on occurring is not told at most, where that is wanted:
	// API servers keep an event for an hour.
	Reminder = 30 * time.Minute
	// quiet is how long an event must not occur to count as new again.
	quiet = 10 * time.Minute
	// limit bounds how many events are remembered.
	limit = 4096
)

// Due reports whether an event is told that occurs for the nth time.
func Due(n uint64) bool { return bits.OnesCount64(n) == 1 }

// Occurrence says what it means that an event occurs now.
type Occurrence struct {
	// Count is how often the event has occurred, Over since when: 1 and 0 if it is new.
	Count uint64
	Over  time.Duration
	// Due: it is told.
	Due bool
}

// Table counts the occurrences of events by their keys. It remembers the 4,096 events that occurred last, so nothing
// has to be forgotten. Make one with [New]. It may be used by many goroutines.
type Table[K comparable] struct {
	clock    clock.PassiveClock
	reminder time.Duration

	mu   sync.Mutex
	seen map[K]*list.Element
	// order has *series[K] values, the latest in front.
	order list.List
}

// series are the occurrences of one event.
type series[K comparable] struct {
	key               K
	count             uint64
	first, last, told time.Time
}

// New returns an empty table. An event that was not told for as long as reminder is due the next time it occurs; 0: only
// its count decides.
func New[K comparable](c clock.PassiveClock, reminder time.Duration) *Table[K] {
	return &Table[K]{clock: c, reminder: reminder, seen: map[K]*list.Element{}}
}

// Note counts an occurrence. An event that has not occurred for 10 min is new.
func (t *Table[K]) Note(key K) Occurrence {
	now := t.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.seen[key]
	if e == nil {
		e = t.order.PushFront(&series[K]{key: key})
		t.seen[key] = e
		if t.order.Len() > limit {
			oldest := t.order.Remove(t.order.Back()).(*series[K])
			delete(t.seen, oldest.key)
		}
	}
	t.order.MoveToFront(e)
	s := e.Value.(*series[K])
	if s.count == 0 || now.Sub(s.last) >= quiet {
		s.count, s.first = 0, now
	}
	s.count++
	s.last = now
	due := Due(s.count) || t.reminder > 0 && now.Sub(s.told) >= t.reminder
	if due {
		s.told = now
	}
	return Occurrence{Count: s.count, Over: now.Sub(s.first), Due: due}
}

// Forget makes an event new.
func (t *Table[K]) Forget(key K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.seen[key]; e != nil {
		t.order.Remove(e)
		delete(t.seen, key)
	}
}
