package machine

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
)

// dispatch starts ready records while fewer calls run than limit; 0 means no limit (L4).
func (m *Machine) dispatch(limit int) {
	for m.Waiting() && (limit == 0 || m.Calling() < limit) {
		m.take(m.ready.head)
	}
}

// take begins or continues the round of a ready record: rules W1 to W9.
func (m *Machine) take(r *record) {
	m.ready.remove(r)
	r.step = idle
	if !r.begun() && !m.start(r) {
		return
	}
	if r.hasPending { // W2, W3
		if r.pending.mirror == nil {
			r.pending.mirror = r.active.mirror
		}
		r.active = r.pending
	}
	phase := r.phase()
	r.startedTerminating = r.startedTerminating || r.terminating
	c := r.call
	if c == nil {
		c = m.config.NewCall()
		c.UID = r.uid
		r.call = c
	}
	if r.hasPending {
		m.mergeStart(r, c)
		r.pending, r.hasPending = spec{}, false
	}
	m.fill(r, c, phase)
	m.begin(r, c)
	m.note(r, reasonTake)
}

// mergeStart passes the type and the age of the pending update to the call.
func (m *Machine) mergeStart(r *record, c *Call) {
	c.Type = r.pendingType
	if r.hasStart && (!c.HasStart || r.pendingStart < c.Start) {
		c.Start, c.HasStart = r.pendingStart, true
	}
}

// fill sets the fields that the syncer gets.
func (m *Machine) fill(r *record, c *Call, phase Phase) {
	c.Phase = phase
	c.Pod, c.Mirror, c.Running = r.active.pod, r.active.mirror, r.active.running
	if phase == Terminating {
		if r.grace > 0 { // G7
			grace := r.grace
			c.Grace = &grace
		}
		if r.rare != nil {
			c.StatusFunc = r.rare.statusFunc
		}
	}
	c.NeedsView = m.config.Views && phase != TerminatingRuntime // V4
	c.After = r.lastEnd                                         // V1
	if m.config.Journal && phase != TerminatingRuntime {
		c.Facts = r.facts()
		if r.rare != nil && r.rare.newAmend {
			c.amends, r.rare.newAmend = true, false
		}
		c.Record = c.Facts.bits() != r.durableFacts || c.Facts.GracePeriodSeconds != r.durable || c.amends
	}
}

// begin starts the call.
func (m *Machine) begin(r *record, c *Call) {
	r.step = calling
	c.counted = true
	m.inFlight++
	m.inPhase[c.Phase]++
	m.calling++
	if c.Phase == Setup && c.Type == TypeCreate && !r.begunCreate {
		r.begunCreate = true
		m.measure(MetricStartDuration, r, 0, (m.now - r.syncedAt).Seconds())
	}
	if d := m.deadline(c.Phase); d > 0 {
		m.schedule(r, d, WhyDeadline)
	}
	m.emit(EffectStartCall, r).Call = c
}

// end stops counting the call in its phase, if it was counted.
func (m *Machine) end(c *Call) {
	if !c.counted {
		return
	}
	c.counted = false
	m.inPhase[c.Phase]--
	m.calling--
}

// start decides whether a record that was never started may start (W4 to W8), and
// reports whether its round goes on now.
func (m *Machine) start(r *record) bool {
	if r.phase() == TerminatingRuntime { // W4
		return true
	}
	if m.held(r) { // IN3
		m.waitForRemoval(r)
		return false
	}
	if !r.static { // W5
		m.started(r)
		return true
	}
	if m.config.Observe && (r.rare.observation == nil) {
		r.step = observing
		m.emit(EffectObserve, r).Pod = r.pod()
		return false
	}
	seen := r.rare.observation
	r.rare.observation = nil
	if seen == nil {
		seen = &Observation{Known: true}
	}
	if seen.Failed {
		m.block(r, WhyLookFailed)
		return false
	}
	if r.terminating {
		return m.startTerminating(r, seen)
	}
	n := m.names[r.rare.fullName]
	if n.owner != nil || m.turn(n) != r { // W7
		m.block(r, WhyNameTaken)
		r.rare.formerGrace = n.owner.stopGrace()
		return false
	}
	if blocked, grace := m.nameRuns(r, seen); blocked { // N6
		m.block(r, WhyNameRunning)
		r.rare.formerGrace = grace
		return false
	}
	m.claim(r) // W8
	m.started(r)
	return true
}

// startTerminating decides on a static pod that was asked to stop before it was
// started (W6). The pod is finished at once, unless something of it runs, it had
// already ended when it came, or its end has a cause that has to be recorded.
func (m *Machine) startTerminating(r *record, seen *Observation) bool {
	ended := r.terminated || seen.Known && podinfo.Terminal(r.pod().Status.Phase)
	caused := r.evicted || r.rare.statusFunc != nil
	switch {
	case r.observedRuntime || seen.Running || ended || caused:
		// The pod may be left from an earlier run of the agent, which may not have
		// released everything the pod holds; and what an eviction, a preemption or
		// a shutdown has to say is published only by a terminating call. So it is
		// terminated like any other, and meanwhile holds the name if that is free.
		n := m.names[r.rare.fullName]
		if n.owner == nil {
			m.claim(r)
		} else {
			m.leaveWaiting(n, r)
		}
		return true
	case !seen.Known:
		m.block(r, WhyViewUnknown)
		return false
	}
	r.terminated, r.startedTerminating, r.finished = true, true, true
	if r.hasStart {
		m.measure(MetricDuration, r, OperationTerminated, (m.now - r.pendingStart).Seconds())
	}
	r.active = r.pending
	r.pending, r.hasPending = spec{}, false
	m.complete(r, KillNeverStarted)
	m.note(r, reasonNeverStarted)
	m.release(r)
	return false
}

// block leaves the update pending and tries again later (W7).
func (m *Machine) block(r *record, why Why) {
	delay := blockedDelay
	if why != WhyNameTaken {
		delay = runningDelay
	}
	m.schedule(r, m.jittered(delay), why)
	m.note(r, reasonBlocked)
}

// nameRuns reports whether another UID of the record's full name runs, and how long it may
// take to stop. It kills the other pod if that has no record and is not spared (N6).
func (m *Machine) nameRuns(r *record, seen *Observation) (blocked bool, grace int64) {
	for _, other := range seen.Others {
		if other.Running.UID != r.uid && m.blocks(other, seen) {
			blocked, grace = true, max(grace, m.records[other.Running.UID].stopGrace())
		}
	}
	return blocked, grace
}

// blocks reports whether a pod that runs under the name of the observed one has to end first.
func (m *Machine) blocks(other Other, seen *Observation) bool {
	uid := other.Running.UID
	o := m.records[uid]
	switch {
	case o == nil:
		sourcesReady := m.podsSynced
		if seen.SourcesReady != nil {
			sourcesReady = *seen.SourcesReady
		}
		if sourcesReady && !m.draining && !other.Spared {
			kill := &Update{Type: TypeKill, Pod: other.Pod, Running: other.Running, Kill: other.Kill}
			m.accept(uid, kill, other.Pod == nil)
		}
		return true
	case o.terminated:
		return false // the view is older than the end of its termination
	case o.pod() == nil || o.terminating && o.static:
		return true
	case o.static && !seen.Running:
		// Both are desired, and the other one runs: it goes first.
		m.goFirst(o)
		return true
	}
	return false
}

// goFirst moves a waiter to the front of the line for its name and wakes it. A pod that was started before it became
// static waits for no name.
func (m *Machine) goFirst(r *record) {
	n := m.names[r.rare.fullName]
	if n == nil {
		return
	}
	for i, w := range n.waiting {
		if w == r {
			copy(n.waiting[1:i+1], n.waiting[:i])
			n.waiting[0] = r
		}
	}
	m.wakeNext(r.rare.fullName)
}

// started marks the start of a life (W9).
func (m *Machine) started(r *record) {
	r.started = true
	if pod := r.pod(); pod != nil {
		m.measure(MetricContainers, r, 0, float64(len(pod.Spec.Containers)))
	}
}

// observed continues the round that asked for the observation.
func (m *Machine) observed(uid types.UID, o *Observation) {
	r := m.records[uid]
	if r == nil || r.step != observing {
		return
	}
	kept := *o
	r.extra().observation = &kept
	m.enqueue(r)
}

// stale records that a call has to wait for its view. It reports false if the call was
// cancelled meanwhile and has ended.
func (m *Machine) stale(c *Call) bool {
	r := m.records[c.UID]
	if r == nil || r.call != c || r.step != calling {
		return false
	}
	m.end(c)
	if c.cause != CauseNone {
		m.done(c, &Result{Err: errCanceled, Failure: FailureView, Canceled: true})
		return false
	}
	m.unschedule(r)
	r.step = viewing
	if c.After > 0 {
		m.emit(EffectRefresh, r)
	}
	return true
}

// viewReady begins the call again, with the updates that came meanwhile.
func (m *Machine) viewReady(c *Call) {
	r := m.records[c.UID]
	if r == nil || r.call != c || r.step != viewing {
		return
	}
	if c.cause != CauseNone {
		m.done(c, &Result{Err: errCanceled, Failure: FailureView, Canceled: true})
		return
	}
	c.Viewed = true
	m.inFlight--
	m.enqueue(r)
}
