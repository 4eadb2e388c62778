package syncloop

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// pending holds what the loop has taken from the queue and not handled yet, sorted
// by urgency. Removals and deletions overtake additions and updates, but never one
// of the same pod, and none of the same pod overtakes them: operations of one UID keep
// their order (SI10). It belongs to the goroutine of the loop. The zero value is ready to use.
type pending struct {
	urgent, changes []*piece
	// messages in the order they came, until all of them and of those before them
	// is handled.
	messages []*message
	// remembered reports a pod that was admitted before; nil: none is known.
	remembered func(types.UID) bool
	// waiting counts, per pod, the changes that wait, hurried the urgent operations.
	waiting, hurried map[types.UID]int
}

// piece is an operation of a message, or the part of it in one lane.
type piece struct {
	operation
	of *message
}

// message is an accepted message that is being handled.
type message struct {
	batch
	sources []string // of its operations
	left    int      // pieces not handled yet
}

// full reports whether enough is taken: the rest stays in the queue, and
// senders wait (M2).
func (p *pending) full() bool { return len(p.messages) >= queueCapacity }

func (p *pending) empty() bool { return len(p.messages) == 0 }

// add takes a message.
func (p *pending) add(b batch) {
	if p.waiting == nil {
		p.waiting, p.hurried = map[types.UID]int{}, map[types.UID]int{}
	}
	m := &message{batch: b}
	for _, o := range b.operations {
		if !slices.Contains(m.sources, o.source) {
			m.sources = append(m.sources, o.source)
		}
		rest := o
		if o.op == opRemove || o.op == opDelete {
			rest.pods = nil
			urgent := o
			urgent.pods = nil
			for _, pod := range o.pods {
				if p.waiting[pod.UID] > 0 {
					rest.pods = append(rest.pods, pod)
				} else {
					urgent.pods = append(urgent.pods, pod)
					p.hurried[pod.UID]++
				}
			}
			if len(urgent.pods) > 0 {
				p.urgent = append(p.urgent, &piece{urgent, m})
				m.left++
			}
			if len(rest.pods) == 0 {
				continue
			}
		}
		if rest.op == opAdd {
			rest.pods = slices.SortedStableFunc(slices.Values(rest.pods), p.compare)
		}
		for _, pod := range rest.pods {
			p.waiting[pod.UID]++
		}
		p.changes = append(p.changes, &piece{rest, m})
		m.left++
	}
	p.messages = append(p.messages, m)
}

// compare orders pods as ADD handles them (section 10): oldest first, without a
// creation time before all, then by UID. Pods that were admitted before a restart come
// first, so that no new pod gets the room they have (AD5).
func (p *pending) compare(a, b *v1.Pod) int {
	known := func(pod *v1.Pod) int {
		if p.remembered != nil && p.remembered(pod.UID) {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(known(a), known(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
}

// queue returns the pieces of a lane, oldest first.
func (p *pending) queue(l lane) *[]*piece {
	if l == laneUrgent {
		return &p.urgent
	}
	return &p.changes
}

// ready reports whether the oldest piece of a lane can be handled. A change waits for the urgent operations
// of its pod, which are older: those that come while it waits follow it. All changes behind it wait, too,
// so that additions keep their order.
func (p *pending) ready(l lane) bool {
	q := *p.queue(l)
	return len(q) > 0 && (len(q[0].pods) == 0 || !p.behind(l, q[0].pods[0]))
}

// behind reports whether a pod of a lane waits for urgent operations of its own.
func (p *pending) behind(l lane, pod *v1.Pod) bool { return l == laneChange && p.hurried[pod.UID] > 0 }

// take returns up to limit pods of the oldest piece of a lane, which must be
// ready, as an operation of their own.
func (p *pending) take(l lane, limit int) operation {
	x := (*p.queue(l))[0]
	pods := x.pods[:min(limit, len(x.pods))]
	if n := slices.IndexFunc(pods, func(pod *v1.Pod) bool { return p.behind(l, pod) }); n >= 0 {
		pods = pods[:n]
	}
	return operation{op: x.op, source: x.source, pods: pods}
}

// handled notes that the first pods of the oldest piece of a lane were handled. It
// returns the messages that this completes.
func (p *pending) handled(l lane, pods []*v1.Pod) (complete []*message) {
	q := p.queue(l)
	x := (*q)[0]
	x.pods = x.pods[len(pods):]
	counts := p.waiting
	if l == laneUrgent {
		counts = p.hurried
	}
	for _, pod := range pods {
		if counts[pod.UID]--; counts[pod.UID] == 0 {
			delete(counts, pod.UID)
		}
	}
	if len(x.pods) > 0 {
		return nil
	}
	*q = (*q)[1:]
	x.of.left--
	for len(p.messages) > 0 && p.messages[0].left == 0 {
		complete = append(complete, p.messages[0])
		p.messages = p.messages[1:]
	}
	return complete
}
