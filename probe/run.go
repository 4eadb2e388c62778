package probe

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/probe/internal/decide"
	"github.com/podwright/podwright/runtime"
)

const (
	// slotPatience is how long an attempt may go unanswered before it loses its slot: by then the
	// delay is the pod's (9.10).
	slotPatience = 500 * time.Millisecond
	// hungGrace is how long after its timeout a run is given up (9.5).
	hungGrace = time.Second
	// execGrace is how long after the timeout the runtime has to report the timeout itself, because
	// only the runtime knows what the command wrote.
	execGrace = 500 * time.Millisecond
	// stopGrace is how long the end of Run waits for running probes (9.8).
	stopGrace = 2 * time.Second
	// maxTries is the number of attempts in one tick (4.1).
	maxTries = 3
)

// Why a run's context ended.
var (
	errTimeout = errors.New("the probe timed out")
	errEnded   = errors.New("the probe is no longer needed")
	errPanic   = errors.New("the handler panicked")
)

// run is the execution of one tick.
type run struct {
	worker *worker
	lane   int
	id     runtime.ContainerID
	// probe and timeout are those of the container. By the time a run that was given up returns, its worker
	// may have others.
	probe   *v1.Probe
	timeout time.Duration
	ctx     context.Context
	cancel  context.CancelCauseFunc
	began   time.Duration // the present attempt
	end     time.Duration // no attempt begins later
	view    View          // what the look showed; empty once an attempt was made of it
	late    time.Duration // how long it has waited for its slot
	// unanswered: it has lost its slot but goes on. Guarded by the manager's lock.
	unanswered bool
	// gone: it was given up, and its outcome is ignored. Guarded by the manager's lock.
	gone bool
}

// Run probes until ctx ends. It returns when everything it started has ended: running probes are
// cancelled without a result, and a handler that ignores its context is waited for 2 s at most
// (9.8). The error is that of a second call.
func (m *Manager) Run(ctx context.Context) error {
	m.mu.Lock()
	if m.begun {
		m.mu.Unlock()
		return errors.New("probe: Run was called before")
	}
	m.begun = true
	m.mu.Unlock()
	withdraw, err := m.metrics.export(m)
	if err != nil {
		m.options.Logger.Error(err, "some metrics are not available")
	} else {
		defer withdraw()
	}
	var consumers sync.WaitGroup
	for _, r := range m.results {
		consumers.Go(func() { r.deliver(ctx, m.options.OnResult) })
	}
	m.schedule(ctx)
	m.stop()
	consumers.Wait()
	m.calls.Leave(m.options.Logger)
	return nil
}

// stop accepts no more work and waits for running probes.
func (m *Manager) stop() {
	idle := make(chan struct{})
	m.mu.Lock()
	m.stopping = true
	if m.inFlight == 0 {
		close(idle)
	} else {
		m.idle = idle
	}
	m.flush()
	m.mu.Unlock()
	timer := m.options.Clock.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C():
		m.options.Logger.Info("Probes still run although they were cancelled; not waiting for them")
	}
}

// patience returns how long an attempt may take before it is cancelled. A command has its timeout
// at the runtime, in whole seconds (5.2).
func (r *run) patience() time.Duration {
	if r.probe.Exec == nil || r.timeout%time.Second != 0 {
		return r.timeout
	}
	return r.timeout + execGrace
}

// work executes a run and the runs that follow in its slot.
func (m *Manager) work(ctx context.Context, r *run) {
	executing := false
	defer func() {
		if !executing {
			return
		}
		// The handler has ended this goroutine, so the slot needs another one.
		m.panicked(r.worker, "it called runtime.Goexit")
		r.cancel(nil)
		if r = m.finish(ctx, r, Outcome{}, fmt.Errorf("%w: it called runtime.Goexit", errPanic)); r != nil {
			go m.work(ctx, r)
		}
	}()
	for r != nil {
		m.metrics.late.Record(ctx, r.late.Seconds()) // without the lock, as in finish
		executing = true
		out, err := m.execute(ctx, r)
		executing = false
		r.cancel(nil)
		r = m.finish(ctx, r, out, err)
	}
}

// execute makes up to three attempts.
func (m *Manager) execute(ctx context.Context, r *run) (Outcome, error) {
	for try := 1; ; try++ {
		out, err := m.attempt(r)
		if context.Cause(r.ctx) == errTimeout && (err != nil || out.Result == Failure) {
			return timedOut(r.timeout), nil
		}
		if err == nil || errors.Is(err, errPanic) || try == maxTries || !m.retry(ctx, r) {
			return out, err
		}
	}
}

// retry prepares another attempt in the same slot, if there is time for one (9.5).
func (m *Manager) retry(ctx context.Context, r *run) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if r.gone || m.stopping || r.worker.stage != running || now >= r.end || r.ctx.Err() != nil {
		return false
	}
	r.cancel(nil)
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	r.began = now
	r.worker.due = now + r.patience()
	if !r.unanswered {
		r.worker.due = now + min(slotPatience, r.patience())
	}
	m.due.place(r.worker)
	return true
}

// attempt runs the handler once.
func (m *Manager) attempt(r *run) (out Outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPanic, p)
			m.panicked(r.worker, p)
		}
	}()
	target, err := m.target(r)
	if err != nil {
		return Outcome{}, err
	}
	handler := m.options.Handler(target)
	if handler == nil {
		if handler, err = m.handler(target.Probe); err != nil {
			return Outcome{}, err
		}
	}
	return handler.Probe(r.ctx, target)
}

// panicked records a panic (2.8).
func (m *Manager) panicked(w *worker, p any) {
	m.mu.Lock()
	m.panics++
	m.mu.Unlock()
	m.options.Logger.Error(fmt.Errorf("%v", p), "A probe handler panicked", "namespace", w.pod.namespace, "name", w.pod.name,
		"uid", w.pod.uid, "container", w.name, "kind", w.kind.String(), "stack", string(debug.Stack()))
}

// timedOut returns the outcome of a run that took too long.
func timedOut(timeout time.Duration) Outcome {
	return Outcome{Result: Failure, Output: fmt.Sprintf("no answer within %v", timeout)}
}

// impatient deals with a run that takes long: first it loses its slot (9.10), then it is cancelled,
// then given up (9.5). The worker has just left the heap. The caller holds the lock.
func (m *Manager) impatient(w *worker, now time.Duration) effects {
	r := w.run
	if limit := r.began + r.patience(); w.stage == running && now < limit {
		if !r.unanswered {
			m.giveUpSlot(r)
		}
		w.due = limit
		m.due.add(w)
		return nil
	}
	if over := r.began + r.timeout + hungGrace; w.stage == running && now < over {
		r.cancel(errTimeout)
		w.due = over
		m.due.add(w)
		return nil
	}
	r.cancel(errTimeout)
	r.gone = true
	m.release(r)
	w.run, w.lost, w.hung = nil, r, w.hung+1
	if w.stage == ended {
		return nil
	}
	return m.judge(w, timedOut(r.timeout), nil, now)
}

// finish processes the outcome of a run, and returns the next run of its slot.
func (m *Manager) finish(ctx context.Context, r *run, out Outcome, err error) *run {
	m.mu.Lock()
	w := r.worker
	if r.gone {
		m.leave()
		w.hung--
		if w.lost == r {
			w.lost = nil
		}
		m.mu.Unlock()
		return nil
	}
	if w.place >= 0 {
		m.due.drop(w)
	}
	w.run = nil
	m.release(r)
	if m.stopping || ctx.Err() != nil || w.stage != running {
		m.leave()
		startable := m.startable()
		m.mu.Unlock()
		if startable { // the slot is free now
			m.poke()
		}
		return nil
	}
	now, kind := m.now(), w.kind
	measured := err == nil && out.Result != Failure
	todo := m.judge(w, out, err, now)
	next, more := m.next(ctx, r.lane)
	urgent := m.armed != 0 && (m.due[0].due < m.armed || m.startable())
	todo = append(todo, more...)
	beyond := measured || len(todo) > 0
	if !beyond {
		m.leave()
	}
	m.mu.Unlock()
	if measured { // without the lock: a meter may read the figures under its own
		m.metrics.took(ctx, kind, now-r.began)
	}
	if beyond { // measuring and announcing are part of the run: the end of Run waits for them
		todo.run()
		m.mu.Lock()
		m.leave()
		m.mu.Unlock()
	}
	if urgent {
		m.poke()
	}
	return next
}

// leave records that a run has ended. The caller holds the lock.
func (m *Manager) leave() {
	m.inFlight--
	if m.inFlight == 0 && m.idle != nil {
		close(m.idle)
		m.idle = nil
	}
}

// judge processes an outcome: it counts it, remembers it, and puts the worker back to wait. The
// caller holds the lock, and must call the returned effects without it.
func (m *Manager) judge(w *worker, out Outcome, err error, now time.Duration) effects {
	w.output, w.executed, w.failed = cut(out.Output, explainOutput), now, err != nil
	todo := m.report(w, out, err)
	results := m.results[w.kind]
	stored, _ := results.get(w.state.ID)
	if err == nil {
		result := Failure
		if out.Result == Success {
			result = Success
		}
		before := w.state
		var store bool
		w.state, store = decide.Judge(w.kind, thresholdsOf(w.kind, w.probe), w.state, result)
		changed := store && stored != result
		if store {
			stored = result
			w.ready = w.ready || result == Success
		}
		if changed || result == Failure || before.Last != w.state.Last || m.stale(w, now) {
			m.remember(w, stored, changed, now) // before anything can act on it
		}
		if changed {
			results.set(w.pod.uid, w.state.ID, result, false)
		}
		if w.state.Hold {
			w.why = "decided for this container"
		}
	} else {
		w.output = cut(err.Error(), explainOutput)
	}
	wanted := w.again
	w.again = nothing
	switch {
	case wanted == afresh, wanted == another && stored != Success, w.grid <= now:
		w.due = now
	default:
		w.due = w.grid
	}
	if fast := m.fast(w, stored); fast > 0 && w.due > now+fast {
		w.due = now + fast
		w.grid = w.due
	}
	m.wait(w)
	return todo
}

// fast returns the pause after which a container that has never been ready is probed again; 0 means
// the probe's own period.
func (m *Manager) fast(w *worker, current Result) time.Duration {
	if m.options.FastUntilReady == 0 || w.kind != Readiness || w.ready || current == Success {
		return 0
	}
	return max(m.options.FastUntilReady, m.options.shortest(w.probe))
}

// stale reports whether a record would soon be too old to be believed (8.6).
func (m *Manager) stale(w *worker, now time.Duration) bool {
	return w.remembered == 0 || now-w.remembered > recordMaxAge/2
}

// remember records what is known about a worker's container.
func (m *Manager) remember(w *worker, stored Result, changed bool, now time.Duration) {
	w.remembered = max(now, 1)
	m.options.Memory.Remember(w.pod.uid, w.name, w.state.ID, w.kind,
		Fact{Stored: stored, Last: w.state.Last, Run: w.state.Run, At: m.wall(w.executed)}, changed)
}

// wall returns a time since the epoch as the wall clock counts now. The clock may have been set, or
// the machine suspended, since the epoch.
func (m *Manager) wall(at time.Duration) time.Time {
	return m.options.Clock.Now().Add(at - m.now())
}

// flush records what has been probed, at the end of Run (9.8).
func (m *Manager) flush() {
	now := m.now()
	for _, p := range m.pods {
		for _, w := range p.workers {
			if stored, ok := m.results[w.kind].get(w.state.ID); ok && w.executed > 0 {
				m.remember(w, stored, false, now)
			}
		}
	}
}

// effects are calls to other components, made without the lock.
type effects []func()

func (e effects) run() {
	for _, f := range e {
		f()
	}
}
