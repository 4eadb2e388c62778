package machine

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Config configures a machine. It has no defaults; the zero value of each field
// means none or no limit.
type Config struct {
	// SyncFrequency is the pause after a successful setup.
	SyncFrequency time.Duration
	// SetupBackOff and TerminatingBackOff are the pauses after errors.
	SetupBackOff, TerminatingBackOff BackOff
	// Deadlines limit the calls of setup, terminating (both kinds) and terminated.
	SetupDeadline, TerminatingDeadline, TerminatedDeadline time.Duration
	// StuckAfter is how long a cancelled call may go on before it is reported.
	StuckAfter time.Duration
	// Views: calls need views. Observe: EffectObserve gets an answer.
	Views, Observe bool
	// Journal: facts have to be recorded.
	Journal bool
	// Schedules: emit EffectSchedule and EffectUnschedule. A shell that asks
	// [Machine.NextDue] needs neither.
	Schedules bool
	// Metrics: emit EffectMetric.
	Metrics bool
	// NewCall allocates a call, for a shell that keeps more data with it. Optional.
	NewCall func() *Call
}

// BackOff is the pause after failed calls: Initial after the first, twice as long
// after each further one up to Max, each plus a jitter of up to half. It starts over after
// a success, a change of phase and a changed spec. The kubelet pauses 10 s each time.
type BackOff struct {
	Initial, Max time.Duration
}

// Pauses of spec/podworkers.md 12 that are not configurable.
const (
	networkDelay = time.Second
	blockedDelay = 10 * time.Second
	// runningDelay is the pause of a static pod whose name is still running (N6).
	// It is short, because only a new view shows the end.
	runningDelay = time.Second
	// pastDelay is the pause after an error that names a time in the past again.
	pastDelay    = time.Second
	jitterFactor = 0.5
	// resyncSlots is the number of moments within a SyncFrequency at which resyncs are due.
	resyncSlots = 12
)

// Machine is the state: all records and the links between them. It is not safe for
// concurrent use.
type Machine struct {
	config Config

	records map[types.UID]*record
	names   map[string]*fullName
	holds   map[types.UID][]Hold // none is empty
	ready   queue
	timers  timers

	podsSynced    bool
	running       bool
	stopping      bool // Detach or Now: no new calls
	draining      bool // Terminate: no new updates
	waitingStatic int
	inFlight      int
	calling       int // the sum of inPhase
	inPhase       [Terminated + 1]int
	stuck         int
	visit         uint32
	lastHold      uint64

	// Only during Apply.
	now     time.Duration
	rand    func() float64
	effects []Effect
}

// New returns a machine without records that does not run yet.
func New(config Config) *Machine {
	if config.NewCall == nil {
		config.NewCall = func() *Call { return &Call{} }
	}
	return &Machine{config: config, records: map[types.UID]*record{}, names: map[string]*fullName{}, holds: map[types.UID][]Hold{}}
}

// Apply changes the records as the event says and appends what has to be done to
// effects, in order. now must not be before the now of the previous event. rand
// returns numbers in [0, 1).
func (m *Machine) Apply(event *Event, now time.Duration, rand func() float64, effects []Effect) []Effect {
	m.now, m.rand, m.effects = now, rand, effects
	switch event.Kind {
	case EventRun:
		m.running = true
	case EventUpdate:
		event.Answer.Outcome = m.update(&event.Update)
	case EventSyncKnown:
		m.syncKnown(event.Desired, event.Known)
	case EventDispatch:
		m.dispatch(event.Limit)
	case EventTake:
		if r := m.records[event.UID]; r != nil && r.step == ready && !m.stopping {
			m.take(r)
		}
	case EventObserved:
		m.observed(event.UID, &event.Observed)
	case EventStale:
		event.Answer.Continue = m.stale(event.Call)
	case EventViewReady:
		m.viewReady(event.Call)
	case EventDone:
		m.done(event.Call, &event.Result)
	case EventTick:
		m.tick()
	case EventHold:
		event.Answer.Hold = m.hold(event.UID, event.Hold)
	case EventForget:
		if r := m.records[event.UID]; r != nil && r.finished {
			m.forget(r, KillAlreadyTerminated)
			event.Answer.Forgotten = true
		}
	case EventWake:
		event.Answer.Outcome = m.wake(event.UID)
	case EventRelease:
		m.unhold(event.UID, event.Hold.ID)
	case EventStop:
		m.stop(event.Stop)
	}
	if m.draining && !m.stopping {
		m.checkDrained()
	}
	effects = m.effects
	m.rand, m.effects = nil, nil
	return effects
}

// NextDue is the time of the earliest scheduled tick.
func (m *Machine) NextDue() (time.Duration, bool) {
	if len(m.timers.heap) == 0 {
		return 0, false
	}
	return m.timers.heap[0].due, true
}

// InFlight is the number of calls started and not done, including those that wait
// for a view.
func (m *Machine) InFlight() int { return m.inFlight }

// Calling is the number of calls started and not done, except those that wait for a view.
func (m *Machine) Calling() int { return m.calling }

// Waiting reports whether a record waits for a dispatch.
func (m *Machine) Waiting() bool { return m.running && !m.stopping && m.ready.head != nil }

// Idle reports whether the machine is stopping and no call is in flight: nothing
// more will happen.
func (m *Machine) Idle() bool { return m.stopping && m.inFlight == 0 }

// Calls returns the UIDs of calls in flight, in no particular order.
func (m *Machine) Calls() []types.UID {
	var uids []types.UID
	for uid, r := range m.records {
		if r.step == calling || r.step == viewing {
			uids = append(uids, uid)
		}
	}
	return uids
}

// emit appends an effect and returns it to be filled in.
func (m *Machine) emit(kind EffectKind, r *record) *Effect {
	m.effects = append(m.effects, Effect{Kind: kind, UID: r.uid})
	return &m.effects[len(m.effects)-1]
}

func (m *Machine) measure(metric Metric, r *record, label uint8, value float64) {
	if m.config.Metrics {
		e := m.emit(EffectMetric, r)
		e.Metric, e.Label, e.Value = metric, label, value
	}
}

func (m *Machine) warn(r *record, warning Warning, err error, count int) {
	e := m.emit(EffectWarn, r)
	e.Warning, e.Err, e.Count, e.Pod = warning, err, count, r.pod()
}

// enqueue makes a record ready, whatever it was waiting for.
func (m *Machine) enqueue(r *record) {
	m.unschedule(r)
	r.step = ready
	m.ready.push(r)
}

// jittered adds up to half of d.
func (m *Machine) jittered(d time.Duration) time.Duration {
	return d + time.Duration(m.rand()*jitterFactor*float64(d))
}

func (m *Machine) schedule(r *record, after time.Duration, why Why) {
	r.why = why
	m.timers.set(r, m.now+after)
	if m.config.Schedules {
		e := m.emit(EffectSchedule, r)
		e.At, e.Why = r.due, why
	}
}

func (m *Machine) unschedule(r *record) {
	if r.dueSlot == 0 {
		return
	}
	m.timers.remove(r)
	r.due, r.why = 0, WhyNothing
	if m.config.Schedules {
		m.emit(EffectUnschedule, r)
	}
}

// tick handles everything due, in order of time, then UID.
func (m *Machine) tick() {
	for len(m.timers.heap) > 0 && m.timers.heap[0].due <= m.now {
		r := m.timers.heap[0].rec
		why := r.why
		m.unschedule(r)
		switch why {
		case WhyDeadline:
			m.cancel(r, CauseDeadline)
		case WhyStuck:
			r.call.stuck = true
			m.stuck++
			m.warn(r, WarnStuck, nil, 0)
		default:
			m.replay(r)
		}
	}
}

// replay plans another round of a record with what is known about it (C8). A
// pending update stays as it is.
func (m *Machine) replay(r *record) {
	if !r.hasPending {
		r.pending, r.pendingType = r.active, TypeSync
		r.hasPending, r.hasStart = true, false
	}
	if r.step == idle {
		m.enqueue(r)
	}
}

// cancel ends the call in progress, if there is one, and remembers the first cause.
func (m *Machine) cancel(r *record, cause Cause) {
	if r.call == nil || r.call.cause != CauseNone || (r.step != calling && r.step != viewing) {
		return
	}
	r.call.cause = cause
	e := m.emit(EffectCancelCall, r)
	e.Call, e.Cause = r.call, cause
	m.measure(MetricCancel, r, uint8(cause), 1)
	if r.step == calling && m.config.StuckAfter > 0 {
		m.schedule(r, m.config.StuckAfter, WhyStuck)
	}
}

// complete closes every completion of the record.
func (m *Machine) complete(r *record, how KillOutcome) {
	if r.rare == nil {
		return
	}
	for _, c := range r.rare.completions {
		m.closeNow(r, c, how)
	}
	r.rare.completions, r.rare.statusFunc = nil, nil
	r.shrink()
}

func (m *Machine) closeNow(r *record, c Completion, how KillOutcome) {
	if c.Ch == nil && c.Outcome == nil {
		return
	}
	e := m.emit(EffectCloseCompletion, r)
	e.Completion, e.Completed = c, how
}

// forget drops the record (I20).
func (m *Machine) forget(r *record, how KillOutcome) {
	m.complete(r, how)
	if r.step == ready {
		m.ready.remove(r)
	}
	m.unschedule(r)
	delete(m.records, r.uid)
	m.emit(EffectForget, r)
	m.leave(r)
	m.release(r)
}

// leave measures the state a record leaves for good.
func (m *Machine) leave(r *record) {
	m.measure(MetricState, r, uint8(r.seen), (m.now - r.since).Seconds())
}

// nameOf returns the namespace and name.
func (r *record) nameOf() (namespace, name string) {
	if pod := r.pod(); pod != nil {
		return pod.Namespace, pod.Name
	}
	for _, s := range [...]*spec{&r.active, &r.pending} {
		if s.running != nil {
			return s.running.Namespace, s.running.Name
		}
	}
	return "", ""
}
