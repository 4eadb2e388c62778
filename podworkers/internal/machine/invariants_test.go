package machine

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// check looks at every record.
func (w *world) check() error {
	owners := map[string]types.UID{}
	for i := range w.lives {
		l := &w.lives[i]
		r := w.m.records[l.uid]
		if r == nil {
			if len(l.open) > 0 && w.m.podsSynced {
				return fmt.Errorf("I10: %s is unknown and has an open completion", l.uid)
			}
			continue
		}
		if err := w.checkRecord(l, r); err != nil {
			return err
		}
		if r.static && r.started && !r.finished {
			name := r.rare.fullName
			if other, taken := owners[name]; taken {
				return fmt.Errorf("I6: %s and %s are both started as %s", other, r.uid, name)
			}
			owners[name] = r.uid
		}
	}
	if w.m.Idle() {
		w.stopped = true
	}
	return w.checkLinks()
}

func (w *world) checkRecord(l *life, r *record) error {
	facts, predicates := r.latched(), w.m.predicateBits(r.uid)
	rank := map[State]int{Queued: 1, InSetup: 1, QueuedTermination: 2, TerminationRequested: 2, RuntimeOnly: 2, InTermination: 3, HasTerminated: 4, Finished: 5}[r.state()]
	runtimeOnly := r.pod() == nil
	switch {
	case l.facts&^facts != 0:
		return fmt.Errorf("I3: a latched fact of %s was taken back: %07b after %07b", r.uid, facts, l.facts)
	case r.terminated && !r.terminating, r.finished && !r.terminated:
		return fmt.Errorf("I4: %s is terminated without termination, or finished without being terminated", r.uid)
	case !w.m.CouldHaveRunningContainers(r.uid) && len(l.open) > 0:
		return fmt.Errorf("I10: %s cannot run and has an open completion", r.uid)
	case w.m.held(r) && r.step == idle && r.hasPending && !r.begun(): // the end of the removal wakes it
	case r.hasPending && r.step == idle && r.dueSlot == 0 && !w.m.stopping:
		return fmt.Errorf("I17: %s has a pending update and nothing scheduled", r.uid)
	case !r.finished && r.step == idle && r.dueSlot == 0 && !w.m.stopping:
		return fmt.Errorf("I17: %s is not finished and nothing is scheduled", r.uid)
	case l.known && l.predicates&^predicates != 0:
		return fmt.Errorf("I19: predicates of %s went back: %07b after %07b", r.uid, predicates, l.predicates)
	case rank < l.rank:
		return fmt.Errorf("I19: %s went back to %s", r.uid, r.state())
	case l.observed && !r.observedRuntime:
		return fmt.Errorf("I3: %s was seen in the runtime, and this is forgotten", r.uid)
	case runtimeOnly && (r.started || r.terminated || r.finished):
		return fmt.Errorf("I25: %s is known from the runtime only and was started or is terminated", r.uid)
	case r.step == calling && r.call.Phase == Terminating && r.call.cause == CauseNone && r.grace != 0 && r.grace < graceOf(r.call):
		return fmt.Errorf("G4: %s has %d s, and its call goes on with %d", r.uid, r.grace, graceOf(r.call))
	case r.seen != r.state():
		return fmt.Errorf("history: %s is %s and was noted as %s", r.uid, r.state(), r.seen)
	case (r.step == calling || r.step == viewing) != (r.call != nil && r.step != ready):
		return fmt.Errorf("steps: %s is in step %d and its call is %v", r.uid, r.step, r.call)
	}
	l.facts, l.predicates, l.rank, l.known = facts, predicates, rank, true
	l.observed = l.observed || r.observedRuntime
	return nil
}

// checkLinks looks at what connects the records (I7, I8, I20, and the counts).
func (w *world) checkLinks() error {
	m := w.m
	waiting := 0
	for name, n := range m.names {
		if n.owner != nil && m.records[n.owner.uid] != n.owner {
			return fmt.Errorf("I7: %s belongs to %s, which is not known", name, n.owner.uid)
		}
		if n.owner == nil && len(n.waiting) == 0 {
			return fmt.Errorf("I20: %s belongs to no record and is kept", name)
		}
		for i, r := range n.waiting {
			if m.records[r.uid] != r {
				return fmt.Errorf("I20: %s waits for %s and is not known", r.uid, name)
			}
			if r.begun() || slices.Contains(n.waiting[:i], r) {
				return fmt.Errorf("I8: %s waits for %s twice or although started", r.uid, name)
			}
		}
		waiting += len(n.waiting)
	}
	if waiting != m.waitingStatic {
		return fmt.Errorf("count: %d static pods wait, %d counted", waiting, m.waitingStatic)
	}
	var inPhase [Terminated + 1]int
	inFlight, queued := 0, 0
	for _, r := range m.records {
		switch r.step {
		case calling:
			inPhase[r.call.Phase]++
			inFlight++
		case viewing:
			inFlight++
		case ready:
			queued++
		}
	}
	calls := 0
	for _, n := range inPhase {
		calls += n
	}
	if inPhase != m.inPhase || inFlight != m.inFlight || calls != m.Calling() {
		return fmt.Errorf("count: by phase %v in flight %d, counted %v %d %d", inPhase, inFlight, m.inPhase, m.inFlight, m.Calling())
	}
	for r := m.ready.head; r != nil; r = r.next {
		if queued--; m.records[r.uid] != r || r.step != ready || r.next == nil && m.ready.tail != r {
			return fmt.Errorf("I20: %s is in the queue by mistake", r.uid)
		}
	}
	if queued != 0 {
		return fmt.Errorf("I20: %d ready records are not in the queue", queued)
	}
	for i, t := range m.timers.heap {
		if m.records[t.rec.uid] != t.rec || t.rec.due != t.due || int(t.rec.dueSlot) != i+1 || i > 0 && m.timers.less(i, (i-1)/2) {
			return fmt.Errorf("I20: timer %d of %s is wrong", i, t.rec.uid)
		}
	}
	return nil
}
