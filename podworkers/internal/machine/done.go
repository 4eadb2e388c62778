package machine

import (
	"errors"
	"time"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/podinfo"
)

var errCanceled = errors.New("canceled while waiting for the view")

// done ends a call: rules C1 to C8.
func (m *Machine) done(c *Call, result *Result) {
	r := m.records[c.UID]
	if r == nil || r.call != c || (r.step != calling && r.step != viewing) {
		return
	}
	m.end(c)
	m.inFlight--
	if c.stuck {
		m.stuck--
	}
	m.unschedule(r)
	r.call, r.step = nil, idle
	if result.End > 0 { // V3
		r.lastEnd = result.End
	}
	if result.Recorded {
		r.durableFacts, r.durable = result.RecordedFacts.bits(), result.RecordedFacts.GracePeriodSeconds
	} else if c.amends && r.rare != nil {
		r.rare.newAmend = true
	}
	m.measureDone(r, c)
	switch {
	case result.Err == nil:
		m.succeeded(r, c, result)
	case result.Canceled && c.cause != CauseNone && c.cause != CauseDeadline: // C1
		m.note(r, reasonCanceled)
		if result.End > 0 {
			m.refresh(r, result)
		}
		m.next(r, func() { m.schedule(r, m.jittered(m.backOff(c.Phase, 1)), WhyBackOff) })
	default: // C2
		m.failed(r, c, result)
	}
}

func (m *Machine) measureDone(r *record, c *Call) {
	if c.HasStart {
		label := uint8(c.Type)
		if c.Phase == Terminated {
			label = OperationTerminated
		}
		m.measure(MetricDuration, r, label, (m.now - c.Start).Seconds())
	}
}

func (m *Machine) succeeded(r *record, c *Call, result *Result) {
	r.lastErr = nil
	switch {
	case c.Phase == Setup && result.Terminal: // C3
		r.terminating, r.startedTerminating = true, true
		if result.Amend != nil && (r.rare == nil || r.rare.statusFunc == nil) {
			r.extra().statusFunc = result.Amend
		}
		m.endPhase(r, result, reasonSetupTerminal)
	case c.Phase == Setup:
		r.attempts = 0
		m.note(r, reasonSetupOK)
		if result.Acted || r.hasPending {
			m.refresh(r, result)
		}
		m.next(r, func() { m.schedule(m.resync(r, result)) })
	case c.Phase == Terminating: // C4
		m.terminatedOK(r, result)
	case c.Phase == TerminatingRuntime && r.pod() != nil: // O2
		m.terminatedOK(r, result)
	case c.Phase == TerminatingRuntime: // C5
		m.emit(EffectRefresh, r)
		namespace, name := r.nameOf()
		m.forget(r, KillDone)
		m.wakeNext(podinfo.FullName(namespace, name)) // N6
	default: // C6
		r.finished = true
		r.attempts = 0
		r.pending, r.hasPending = spec{}, false
		m.refresh(r, result)
		m.note(r, reasonTerminatedOK)
		m.release(r)
	}
}

// terminatedOK: no container of the pod runs any more (C4).
func (m *Machine) terminatedOK(r *record, result *Result) {
	r.terminated = true
	m.complete(r, KillDone)
	m.endPhase(r, result, reasonTerminatingOK)
}

// endPhase continues in the next phase at once.
func (m *Machine) endPhase(r *record, result *Result, why Reason) {
	r.attempts = 0
	m.note(r, why)
	m.refresh(r, result)
	if m.stopping {
		m.complete(r, KillStopped)
		return
	}
	m.replay(r)
}

// refresh asks for a view that shows what a call did, unless there is one (L6).
func (m *Machine) refresh(r *record, result *Result) {
	if !result.Seen {
		m.emit(EffectRefresh, r)
	}
}

// next continues with the pending update, or leaves the record idle with a wake-up (C7).
func (m *Machine) next(r *record, otherwise func()) {
	switch {
	case m.stopping:
		m.complete(r, KillStopped)
	case r.hasPending:
		m.enqueue(r)
	default:
		otherwise()
	}
}

// failed keeps the state and tries again later (C2).
func (m *Machine) failed(r *record, c *Call, result *Result) {
	r.lastErr = result.Err
	if c.Phase == r.phase() && r.attempts < 255 { // a phase begins without failures
		r.attempts++
	}
	switch result.Failure {
	case FailurePanic:
		x := r.extra()
		x.panics++
		m.measure(MetricPanic, r, uint8(c.Phase), 1)
		if x.panics == 1 || x.panics%10 == 0 {
			m.warn(r, WarnPanic, result.Err, x.panics)
		}
	case FailureView, FailureJournal: // W10
		m.warn(r, WarnFailedSync, result.Err, 1)
	}
	m.note(r, reasonFailed+Reason(c.Phase))
	if result.End > 0 {
		m.refresh(r, result)
	}
	m.next(r, func() {
		delay, why := m.delay(r, c, result)
		m.measure(MetricBackOff, r, uint8(c.Phase), delay.Seconds())
		m.schedule(r, delay, why)
	})
}

// resync returns the pause after a setup call that succeeded (C3).
func (m *Machine) resync(r *record, result *Result) (*record, time.Duration, Why) {
	if !result.Requeue || result.RetryAfter >= m.config.SyncFrequency {
		return r, m.regular(), WhyResync
	}
	if result.RetryAfter <= 0 { // otherwise the pod's calls could follow each other without a pause
		return r, pastDelay, WhyRequeue
	}
	return r, result.RetryAfter, WhyRequeue
}

// regular returns the pause before the next resync. It has jitter, but ends at one of a few moments
// that all pods share, so that an idle program wakes up for many pods at once.
func (m *Machine) regular() time.Duration {
	pause := m.jittered(m.config.SyncFrequency)
	slot := max(m.config.SyncFrequency/resyncSlots, 1)
	pause -= (m.now + pause) % slot
	if pause < m.config.SyncFrequency {
		pause += slot
	}
	return pause
}

// delay returns the pause after an error (section 12, L5).
func (m *Machine) delay(r *record, c *Call, result *Result) (time.Duration, Why) {
	switch result.Retry {
	case RetryNetwork:
		return m.jittered(networkDelay), WhyNetwork
	case RetryExplicit:
		// No jitter: a named moment belongs to this pod alone, and a restart that
		// was announced for 20 s from now should not take 30.
		// A past moment, named again after the attempt it asked for, would make the
		// pod's calls follow each other without a pause.
		least := time.Duration(0)
		if r.attempts > 1 && result.RetryAfter <= 0 {
			least = pastDelay
		}
		named := min(max(result.RetryAfter, least), m.config.SyncFrequency)
		if result.RetryWithin > 0 { // another error, which does not wait for that moment
			if pause := m.bounded(r, c, result); pause < named {
				return pause, WhyBackOff
			}
		}
		return named, WhyRetryAt
	default:
		return m.bounded(r, c, result), WhyBackOff
	}
}

// bounded returns the pause of the back-off, at most RetryWithin before jitter.
func (m *Machine) bounded(r *record, c *Call, result *Result) time.Duration {
	pause := m.backOff(c.Phase, r.attempts)
	if result.RetryWithin > 0 {
		pause = min(pause, result.RetryWithin)
	}
	return m.jittered(pause)
}

// backOff returns the pause, before jitter, after a number of failures in a row.
func (m *Machine) backOff(p Phase, failures uint8) time.Duration {
	b := m.config.SetupBackOff
	if p != Setup {
		b = m.config.TerminatingBackOff
	}
	return backoff.Delay(b.Initial, b.Max, int(failures))
}

func (m *Machine) deadline(p Phase) time.Duration {
	switch p {
	case Setup:
		return m.config.SetupDeadline
	case Terminated:
		return m.config.TerminatedDeadline
	default:
		return m.config.TerminatingDeadline
	}
}
