package probe

import (
	"context"
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

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
	timer := m.options.Clock.NewTimer(0)
	defer timer.Stop()
	var batch []*worker
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C():
		case <-m.wake:
		}
		for {
			batch = m.takeDue(batch[:0])
			if len(batch) == 0 {
				break
			}
			for _, w := range batch {
				m.attend(w)
			}
			clear(batch)
			m.dispatch(ctx)
		}
		m.dispatch(ctx)
		if pause, ok := m.pause(); ok {
			if !timer.Stop() {
				select {
				case <-timer.C():
				default:
				}
			}
			timer.Reset(pause)
		}
	}
}

// pause is the time until the next worker is due; false if none waits. From then on
// the scheduler has to be told of what cannot wait that long.
func (m *Manager) pause() (time.Duration, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.startable() {
		return 0, true
	}
	if len(m.due) == 0 {
		m.armed = math.MaxInt64
		return 0, false
	}
	m.armed = m.due[0].due
	return max(m.due[0].due-m.now(), 0), true
}

// maxBatch bounds how many workers are taken at once, so that runs begin before all
// are looked at.
const maxBatch = 256

// takeDue takes the workers whose time has come, in order.
func (m *Manager) takeDue(batch []*worker) []*worker {
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.armed = 0
	for len(m.due) > 0 && len(batch) < maxBatch && m.due[0].due <= now {
		w := m.due.take()
		if w.stage == waiting {
			w.stage = looking
		}
		batch = append(batch, w)
	}
	return batch
}

// attend deals with a worker whose time has come: a look, or the end of patience
// with its run.
func (m *Manager) attend(w *worker) {
	m.mu.Lock()
	if w.stage != looking {
		effects := m.impatient(w)
		m.mu.Unlock()
		effects.run()
		return
	}
	m.mu.Unlock()
	view, known := m.options.Pods.View(w.pod.uid)
	look := m.look(w, view, known, m.options.Clock.Now())
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.stage == looking {
		m.settle(w, look, m.now())
	}
}

// settle decides about a worker that is in no heap. The caller holds the lock.
func (m *Manager) settle(w *worker, l decide.Look, now time.Duration) {
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
		if now >= w.earliest {
			m.enqueue(w, now)
			return
		}
		w.why, w.due = "the first run is put off by chance, so that not all come at once", w.earliest
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

// Observed tells that a status of the pod was generated, and is the newest: workers
// that wait for what it shows look again at once, and a container that has started
// and is not ready gets a readiness run (2.6).
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
		c := containerOf(view, w.name)
		switch {
		case c == nil:
			continue
		case c.ID != w.state.ID || w.stage == waiting && w.why != "" && !w.state.Hold, !c.Running:
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

// Trigger asks for a run of one probe now. Triggers coalesce, and restart the grid of
// the probe (2.5). A probe that may not run yet does not.
func (m *Manager) Trigger(uid types.UID, container string, kind Kind) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if entry := m.pods[uid]; entry != nil {
		if w := entry.find(container, kind); w != nil && m.ask(w, another) {
			m.poke()
		}
	}
}

// ask makes a worker that waits due, and notes the wish of one that is busy. It
// returns whether the scheduler has something to do.
func (m *Manager) ask(w *worker, what wish) bool {
	switch w.stage {
	case waiting:
		if now := m.now(); w.due > now {
			w.due = now
			m.due.place(w)
		}
		return true
	case looking, running:
		w.again = max(w.again, what)
	}
	return false
}
