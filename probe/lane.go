package probe

import (
	"context"
	"slices"
	"time"
)

// lane is the pool of one kind of handler: network or exec (9.2).
type lane struct {
	slots int
	// busy runs hold a slot; unanswered ones have lost theirs (9.10).
	busy, unanswered int
	queue            timeline
}

// slotsPerUnanswered is how many extra slots the others get for each run that gets no answer: more
// than one, so that a crowd of hanging probes clears quickly, however few slots there are.
const slotsPerUnanswered = 3

// free reports whether there is a slot for another run.
func (l *lane) free() bool { return l.busy < l.slots+slotsPerUnanswered*l.unanswered }

// laneOf returns the index of a worker's lane.
func laneOf(w *worker) int {
	if w.probe.Exec != nil {
		return 1
	}
	return 0
}

// enqueue puts a worker that is to run into its queue, by the time it was due at. A run that is off
// the grid begins a new grid (2.5). The caller holds the lock.
func (m *Manager) enqueue(w *worker, now time.Duration) {
	w.why = ""
	if now < w.grid {
		w.restart(now)
	}
	w.stage = queued
	m.lanes[laneOf(w)].queue.add(w)
}

// unqueue removes a queued worker.
func (m *Manager) unqueue(w *worker) {
	if w.place >= 0 {
		m.lanes[laneOf(w)].queue.drop(w)
		return
	}
	w.pod.parked = slices.DeleteFunc(w.pod.parked, func(other *worker) bool { return other == w })
}

// dispatch starts what may start now. Each run has a goroutine for its slot, which takes the next
// run when it is done and ends when there is none, so a long queue needs no more goroutines than
// there were free slots.
func (m *Manager) dispatch(ctx context.Context) {
	for _, r := range m.startAll(ctx) {
		go m.work(ctx, r)
	}
	clear(m.starting)
}

func (m *Manager) startAll(ctx context.Context) []*run {
	var todo effects
	defer func() { todo.run() }()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.starting = m.starting[:0]
	for i := range m.lanes {
		for {
			r, effects := m.next(ctx, i)
			todo = append(todo, effects...)
			if r == nil {
				break
			}
			m.starting = append(m.starting, r)
		}
	}
	return m.starting
}

// maxHung is how many calls of one probe may hang, each for another container (9.5).
const maxHung = 8

// next takes a slot of a lane for the queued worker that was due first; nil if none is queued or no
// slot is free. The caller holds the lock.
func (m *Manager) next(ctx context.Context, i int) (*run, effects) {
	l := &m.lanes[i]
	var effects effects
	for l.free() && len(l.queue) > 0 && !m.stopping {
		w := l.queue.take()
		now := m.now()
		switch {
		case w.lost != nil && w.lost.id == w.state.ID, w.hung >= maxHung: // 9.5: no second call for a container while one hangs
			w.view = View{}
			w.advance(now)
			effects = append(effects, m.judge(w, timedOut(w.timing.Timeout), nil, now)...)
		case w.pod.running >= m.options.PodSlots:
			w.pod.parked = append(w.pod.parked, w)
		default:
			l.busy++
			w.pod.running++
			m.inFlight++
			return m.begin(ctx, w, i, now), effects
		}
	}
	return nil, effects
}

// startable reports whether a queued worker would find a free slot.
func (m *Manager) startable() bool {
	for i := range m.lanes {
		if m.lanes[i].free() && len(m.lanes[i].queue) > 0 && !m.stopping {
			return true
		}
	}
	return false
}

// begin creates the run of a worker that has got a slot.
func (m *Manager) begin(ctx context.Context, w *worker, lane int, now time.Duration) *run {
	late := max(now-w.due, 0)
	m.lateness = max(m.lateness, late)
	w.advance(now)
	r := &run{
		worker: w, lane: lane, id: w.state.ID, probe: w.probe, timeout: w.timing.Timeout,
		began: now, end: now + w.timing.Period, view: w.view, late: late,
	}
	w.view = View{}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	w.run = r
	w.stage, w.due = running, now+min(slotPatience, r.patience())
	m.due.add(w)
	return r
}

// giveUpSlot lets others run while a run gets no answer. The caller holds the lock.
func (m *Manager) giveUpSlot(r *run) {
	l := &m.lanes[r.lane]
	r.unanswered = true
	l.busy--
	l.unanswered++
}

// release gives a run's slot back, and lets the pod's parked workers try again. The
// caller holds the lock.
func (m *Manager) release(r *run) {
	if l := &m.lanes[r.lane]; r.unanswered {
		l.unanswered--
	} else {
		l.busy--
	}
	p := r.worker.pod
	p.running--
	for _, w := range p.parked {
		m.lanes[laneOf(w)].queue.add(w)
	}
	p.parked = nil
}
