package machine

import (
	"encoding/binary"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// clone copies a world so that both can go on. It omits the history, which has no
// influence.
func (w *world) clone() *world {
	m := *w.m
	c := &world{m: &m, now: w.now, stamp: w.stamp, stopped: w.stopped, lives: slices.Clone(w.lives)}
	m.records = make(map[types.UID]*record, len(w.m.records))
	old := make([]*record, 0, 4)
	replacement := make([]*record, 0, 4)
	for uid, r := range w.m.records {
		n := *r
		n.history = nil
		if r.rare != nil {
			x := *r.rare
			x.completions = slices.Clone(x.completions)
			n.rare = &x
		}
		if r.call != nil {
			x := *r.call
			n.call = &x
		}
		m.records[uid] = &n
		old, replacement = append(old, r), append(replacement, &n)
	}
	moved := func(r *record) *record {
		if i := slices.Index(old, r); i >= 0 {
			return replacement[i]
		}
		return nil
	}
	for _, n := range replacement {
		n.next, n.prev = moved(n.next), moved(n.prev)
	}
	m.ready.head, m.ready.tail = moved(m.ready.head), moved(m.ready.tail)
	m.timers.heap = slices.Clone(m.timers.heap)
	for i := range m.timers.heap {
		m.timers.heap[i].rec = moved(m.timers.heap[i].rec)
	}
	m.names = make(map[string]*fullName, len(w.m.names))
	for name, n := range w.m.names {
		x := &fullName{owner: moved(n.owner)}
		for _, r := range n.waiting {
			x.waiting = append(x.waiting, moved(r))
		}
		m.names[name] = x
	}
	m.holds = make(map[types.UID][]Hold, len(w.m.holds))
	for uid, holds := range w.m.holds {
		m.holds[uid] = slices.Clone(holds)
	}
	for i := range c.lives {
		l := &c.lives[i]
		l.open = slices.Clone(l.open)
		if l.call != nil {
			l.call = m.records[l.uid].call
		}
	}
	return c
}

// key returns everything about the world that can influence what it does next, or
// what is checked: two worlds with the same key behave alike. It omits times
// (elapse chooses), the order of the queues (take chooses), types and mirrors of
// updates and counts of failures (they change what is reported, not what happens).
// order is the order in which the UIDs are written. full adds what matters to one
// pod only and never to the other: flags that are only reported, the grace period, the
// status function. TestExploreOne uses it for all states of one pod, so pairs need not.
func (w *world) key(order []int, full bool, id func(any) byte, buf []byte) []byte {
	m := w.m
	flags := func(bits ...bool) {
		var b uint16
		for i, set := range bits {
			if set {
				b |= 1 << i
			}
		}
		buf = binary.LittleEndian.AppendUint16(buf, b)
	}
	place := func(r *record) byte {
		if r == nil {
			return 0
		}
		for i, o := range order {
			if w.lives[o].uid == r.uid {
				return byte(i) + 1
			}
		}
		return 255
	}
	flags(m.podsSynced, m.stopping, m.draining, w.stopped)
	for _, i := range order {
		l := &w.lives[i]
		r := m.records[l.uid]
		buf = append(buf, byte(len(m.holds[l.uid])))
		if r == nil {
			buf = append(buf, '-', byte(len(l.open)))
			continue
		}
		spec := func(pod *v1.Pod) byte {
			if pod != nil && r.terminating {
				return 1 // its grace, phase and deletion have been taken over
			}
			return id(pod)
		}
		flags(r.hasPending, r.static, r.started, r.terminating, r.startedTerminating, r.terminated, r.finished,
			r.restartRequested, r.observedRuntime, r.dueSlot != 0, r.why == WhyStuck)
		buf = append(buf, byte(r.step), byte(len(l.open)),
			spec(r.pending.pod), id(r.pending.running), spec(r.active.pod), id(r.active.running))
		if full {
			flags(r.deleted, r.evicted, l.setup, l.terminatedOK, r.lastEnd > 0)
			buf = append(buf, byte(r.grace), byte(l.grace), byte(len(l.status)))
		}
		if r.rare != nil {
			if o := r.rare.observation; o != nil {
				flags(o.Failed, o.Known, o.Running, len(o.Others) > 0)
			}
		}
		if c := r.call; c != nil {
			flags(c.Viewed)
			buf = append(buf, byte(c.Phase), byte(c.cause))
		}
		if r.static {
			if n := m.names[r.rare.fullName]; n != nil {
				buf = append(buf, place(n.owner))
				for _, o := range n.waiting {
					buf = append(buf, place(o))
				}
			}
		}
	}
	return buf
}
