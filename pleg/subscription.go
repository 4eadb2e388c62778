package pleg

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Subscription is one consumer's set of pods with something new (V1-V3). The set holds each pod
// once, however often the pod changes, so it cannot overflow, and a slow consumer delays no other.
// All methods are safe for concurrent use.
type Subscription struct {
	ready chan struct{}
	leave func(*Subscription)

	mu   sync.Mutex
	pods map[types.UID]*pending
}

// pending is what a subscriber has not yet taken of one pod.
type pending struct {
	events PodEvents
	// order is the number of the pod's first change, see [Generator].
	order uint64
}

func newSubscription(leave func(*Subscription)) *Subscription {
	return &Subscription{ready: make(chan struct{}, 1), leave: leave, pods: map[types.UID]*pending{}}
}

// Ready returns a channel that receives a value when the set has become non-empty. One value may
// stand for any number of changes; after receiving it, call Take once or until it returns nothing:
// both are correct.
func (s *Subscription) Ready() <-chan struct{} { return s.ready }

// Take empties the set and returns its content. The pod that changed first comes first; pods of one
// relist are in order of UID. It returns nil for an empty set and never blocks. The result belongs
// to the caller.
func (s *Subscription) Take() []PodEvents {
	s.mu.Lock()
	taken := s.pods
	if len(taken) == 0 {
		s.mu.Unlock()
		return nil
	}
	s.pods = map[types.UID]*pending{}
	s.mu.Unlock()
	all := make([]*pending, 0, len(taken))
	for _, p := range taken {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *pending) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.events.UID, b.events.UID))
	})
	events := make([]PodEvents, len(all))
	for i, p := range all {
		events[i] = p.events
	}
	return events
}

// Close ends the subscription: nothing is added any more. What was not taken can still be taken.
// Ready is not closed.
func (s *Subscription) Close() { s.leave(s) }

// add merges one change of a pod into the set.
func (s *Subscription) add(uid types.UID, order uint64, now time.Time, kinds Kind, died []string) {
	s.mu.Lock()
	p := s.pods[uid]
	if p == nil {
		p = &pending{events: PodEvents{UID: uid, Since: now}, order: order}
		s.pods[uid] = p
	}
	p.events.Kinds |= kinds
	for _, id := range died {
		if p.events.AllDied {
			break
		}
		if slices.Contains(p.events.Died, id) {
			continue
		}
		if len(p.events.Died) == maxDied {
			p.events.Died, p.events.AllDied = nil, true
			break
		}
		p.events.Died = append(p.events.Died, id)
	}
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// subscribers is the list of open subscriptions.
type subscribers struct {
	mu   sync.RWMutex
	open []*Subscription
}

func (l *subscribers) join() *Subscription {
	s := newSubscription(l.leave)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, s)
	return s
}

func (l *subscribers) leave(s *Subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = slices.DeleteFunc(l.open, func(other *Subscription) bool { return other == s })
}

// deliver adds one change of a pod to every subscriber's set.
func (l *subscribers) deliver(uid types.UID, order uint64, now time.Time, kinds Kind, died []string) {
	kinds &^= changed
	if kinds == 0 {
		return
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, s := range l.open {
		s.add(uid, order, now, kinds, died)
	}
}
