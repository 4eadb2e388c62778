package probe

import (
	"context"
	"math"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/probe/internal/decide"
)

// poke makes the scheduler look at the heap. It never blocks.
func (m *Manager) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// schedule is the one goroutine that looks at workers and starts runs.
func (m *Manager) schedule(ctx context.Context) {
	timer := m.options.Clock.NewTimer(time.Hour) // until the first pause
	defer timer.Stop()
	m.poke()
	var batch []*worker
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C():
		case <-m.wake:
		}
		for more := true; more; {
			var effects effects
			batch, effects = m.takeDue(batch[:0])
			effects.run()
			for _, w := range batch {
				m.attend(w)
			}
			more = len(batch) == maxBatch
			clear(batch)
			m.dispatch(ctx)
		}
		switch pause := m.pause(); {
		case pause == 0:
			m.poke()
		case pause > 0:
			timing.Restart(timer, pause)
		}
	}
}

// together is how far apart due times may be for the scheduler to handle them in one wake-up: with
// thousands of probes, a wake-up for each would be most of what a run costs.
const together = time.Millisecond

// pause returns the time until the next worker is due, or a little longer if that is very soon;
// less than 0 if none waits. From then on, the scheduler has to be woken for anything that cannot wait
// until then.
func (m *Manager) pause() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.startable() {
		return 0
	}
	if len(m.due) == 0 {
		m.armed = math.MaxInt64
		return -1
	}
	m.armed = m.due[0].due
	if due := m.due[0].due - m.now(); due > 0 {
		return max(due, together)
	}
	return 0
}

// maxBatch bounds how many workers are taken at once, so that runs begin before all workers have
// been looked at.
const maxBatch = 256

// takeDue takes the workers that are due for a look, in order, and deals with those whose runs take
// too long.
func (m *Manager) takeDue(batch []*worker) ([]*worker, effects) {
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.armed = 0
	var todo effects
	for len(m.due) > 0 && len(batch) < maxBatch && m.due[0].due <= now {
		w := m.due.take()
		if w.stage != waiting {
			todo = append(todo, m.impatient(w, now)...)
			continue
		}
		w.stage = looking
		batch = append(batch, w)
	}
	return batch, todo
}

// attend looks at a worker.
func (m *Manager) attend(w *worker) {
	view, known := m.options.Pods.View(w.pod.uid)
	if known {
		m.renew(w, view)
	}
	wall := m.options.Clock.Now()
	look := m.look(w, view, known, wall, &m.looked)
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.stage != looking {
		return
	}
	if m.decide(w, look, m.now()); w.stage == queued {
		w.view = view
	}
}

// renew gives a worker that finds another container the probe that its pod has by now (1.4). It is
// called before anything reads the probe for that container.
func (m *Manager) renew(w *worker, view View) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.next == nil || w.stage != looking {
		return
	}
	if c, ok := containerOf(view, w.name); ok && c.ID != w.state.ID {
		w.probe, w.timing, w.next = w.next.probe, w.next.timing, nil
		now := m.now()
		w.restart(now) // the old grid may be an hour wide, and so may the first wait
		w.earliest = min(w.earliest, now+w.timing.Period)
	}
}

// decide makes the decision about a worker that is in no heap. The caller holds the lock.
func (m *Manager) decide(w *worker, l decide.Look, now time.Duration) {
	l.At = now
	out := decide.Tick(w.state, l)
	store := m.results[w.kind]
	if !out.Drop.IsZero() {
		store.remove(out.Drop)
	}
	if out.State.ID != w.state.ID {
		w.ready, w.complaint, w.output, w.remembered = false, nil, "", 0
	}
	w.state, w.why = out.State, out.Why
	if out.Store {
		store.set(w.pod.uid, w.state.ID, out.Result, out.Quiet)
		w.ready = w.ready || out.Result == Success
	}
	wanted := w.again
	w.again = nothing
	switch out.Step {
	case decide.End:
		m.end(w)
		return
	case decide.Execute:
		if now >= w.earliest && wanted != afresh {
			m.enqueue(w, now)
			return
		}
		w.why, w.due = "the first run is delayed by random jitter, so that not all come at once", w.earliest
	default:
		w.advance(now)
		w.due = w.grid
		if out.After > 0 {
			w.due = min(w.due, now+out.After)
		}
	}
	if wanted == afresh { // what was just looked at may be outdated
		w.due = now
	}
	m.wait(w)
}

// wait puts a worker into the heap.
func (m *Manager) wait(w *worker) {
	w.stage = waiting
	m.due.add(w)
}

// Observed says that the newest status of the pod has been generated: workers that wait for
// something it shows look again at once, and a container that has started and is not ready gets a
// readiness run (2.6).
func (m *Manager) Observed(pod *v1.Pod, status *v1.PodStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry := m.pods[pod.UID]
	if entry == nil {
		return
	}
	view := View{Pod: pod, Status: status}
	poke := false
	for _, w := range entry.workers {
		c, ok := containerOf(view, w.name)
		switch {
		case !ok:
			continue
		case c.ID != w.state.ID, !c.Running, w.stage == waiting && w.why != "" && !w.state.Hold,
			w.stage == looking: // perhaps at the status before
			poke = m.ask(w, afresh) || poke
		case w.kind == Readiness && c.Started:
			if r, _ := m.results[Readiness].get(c.ID); r != Success {
				poke = m.ask(w, another) || poke
			}
		}
	}
	if poke {
		m.poke()
	}
}

// ask makes a waiting worker due, takes a queued one back for a look if its container has changed, and
// records the wish of a busy one. It returns whether the scheduler has something to do.
func (m *Manager) ask(w *worker, what wish) bool {
	switch w.stage {
	case waiting:
		if now := m.now(); w.due > now {
			w.due = now
			m.due.place(w)
		}
		return true
	case queued:
		if what == afresh { // it keeps its due time, and so its turn
			m.unqueue(w)
			w.view = View{}
			m.wait(w)
			return true
		}
	case looking, running:
		w.again = max(w.again, what)
	}
	return false
}
