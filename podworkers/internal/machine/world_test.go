package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// world is a machine together with what an outsider can know about it: which
// calls run, which completions are open, what each life has seen. The invariants
// I1 to I25 of spec/podworkers.md 15 are checked against it after every event.
type world struct {
	m     *Machine
	now   time.Duration
	stamp runtime.Stamp
	lives []life
	fx    []Effect

	stopped bool // a stop was complete: no call may start any more (I23)
}

// life is what an outsider knows of one UID.
type life struct {
	uid  types.UID
	call *Call // started and not ended
	away bool  // the call waits for its view or slot, nobody runs it

	open   []chan<- struct{} // completions given and not closed
	status string            // the reason the last status function writes
	end    runtime.Stamp     // of the last call, across lives of the record

	// Since the record exists:
	setup, terminatedOK, finishedOK bool
	grace                           int64
	facts                           uint8
	predicates                      uint8
	rank                            int
	known, observed                 bool
}

func newWorld(config Config, uids ...types.UID) *world {
	w := &world{m: New(config)}
	for _, uid := range uids {
		w.lives = append(w.lives, life{uid: uid})
	}
	return w
}

func (w *world) life(uid types.UID) *life {
	for i := range w.lives {
		if w.lives[i].uid == uid {
			return &w.lives[i]
		}
	}
	w.lives = append(w.lives, life{uid: uid})
	return &w.lives[len(w.lives)-1]
}

func noJitter() float64 { return 0 }

// apply gives the event to the machine and follows its effects. The error names
// the invariant that does not hold.
func (w *world) apply(ev *Event) error {
	var desired []types.UID
	if ev.Kind == EventSyncKnown {
		for _, pod := range ev.Desired {
			desired = append(desired, pod.UID)
		}
	}
	finishedRestart := map[types.UID]bool{}
	pendingBefore := false
	var doneUID types.UID
	if ev.Kind == EventSyncKnown {
		for uid, r := range w.m.records {
			if r.finished && r.restartRequested {
				finishedRestart[uid] = true
			}
		}
	}
	if ev.Kind == EventDone {
		doneUID = ev.Call.UID
		r := w.m.records[doneUID]
		pendingBefore = r != nil && r.hasPending
	}
	if ev.Kind == EventUpdate && ev.Update.Kill != nil {
		if ch := ev.Update.Kill.Completion.Ch; ch != nil {
			l := w.life(updateUID(&ev.Update))
			if !slices.Contains(l.open, ch) {
				l.open = append(l.open, ch)
			}
		}
	}
	w.fx = w.m.Apply(ev, w.now, noJitter, w.fx[:0])
	for i := range w.fx {
		if err := w.follow(&w.fx[i], ev, desired, finishedRestart); err != nil {
			return err
		}
	}
	if pendingBefore && !w.m.stopping {
		if r := w.m.records[doneUID]; r != nil && !r.finished && r.step != ready {
			return fmt.Errorf("I15: an update came while the call of %s ran, and no round follows", doneUID)
		}
	}
	if ev.Kind == EventSyncKnown {
		for uid := range finishedRestart {
			if w.m.records[uid] != nil && !w.m.stopping {
				return fmt.Errorf("I24: %s is finished, is to live again, and was not forgotten", uid)
			}
		}
	}
	if ev.Kind == EventDispatch && w.m.running && !w.m.stopping {
		for c, limit := range [classes]int{w.m.config.SetupSlots, w.m.config.TerminatingSlots} {
			if w.m.slots[c] > limit && limit > 0 || w.m.ready[c].head != nil && (limit <= 0 || w.m.slots[c] < limit) {
				return fmt.Errorf("L4: class %d has %d calls of %d, and %d wait", c, w.m.slots[c], limit, w.m.ready[c].len)
			}
		}
	}
	return w.check()
}

func updateUID(u *Update) types.UID {
	switch {
	case u.Pod != nil:
		return u.Pod.UID
	case u.Running != nil:
		return u.Running.UID
	}
	return ""
}

// follow checks one effect and takes note of it.
func (w *world) follow(e *Effect, ev *Event, desired []types.UID, finishedRestart map[types.UID]bool) error {
	if e.Kind == EffectDrained {
		return nil
	}
	l := w.life(e.UID)
	switch e.Kind {
	case EffectStartCall:
		return w.started(l, e.Call)
	case EffectCloseCompletion:
		if e.Completion.Ch == nil {
			return nil
		}
		i := slices.Index(l.open, e.Completion.Ch)
		if i < 0 {
			return fmt.Errorf("I9: a completion of %s is closed twice", e.UID)
		}
		l.open = slices.Delete(l.open, i, i+1)
	case EffectForget:
		switch {
		case ev.Kind == EventSyncKnown && slices.Contains(desired, e.UID) && !finishedRestart[e.UID]:
			return fmt.Errorf("I13: %s is desired and was forgotten", e.UID)
		case l.setup && (!l.terminatedOK || !l.finishedOK):
			return fmt.Errorf("I11: %s was set up and is forgotten before it ended", e.UID)
		case l.facts&bitFinished == 0 && (l.facts&bitStarted != 0 || l.observed) && ev.Kind != EventDone:
			return fmt.Errorf("I12: %s is forgotten although it was started or observed", e.UID)
		}
		uid, open, end := l.uid, l.open, l.end
		*l = life{uid: uid, open: open, end: end}
	}
	return nil
}

// started checks a call that begins.
func (w *world) started(l *life, c *Call) error {
	r := w.m.records[l.uid]
	switch {
	case l.call == c && !c.Viewed:
		return fmt.Errorf("V1: the call of %s waited for its view and does not know that it has one", l.uid)
	case l.call != nil && (l.call != c || !l.away):
		return fmt.Errorf("I1: a second call of %s", l.uid)
	case w.stopped:
		return fmt.Errorf("I23: a call of %s after the stop", l.uid)
	case c.Phase == Setup && r.startedTerminating:
		return fmt.Errorf("I2: SyncPod of %s after termination began", l.uid)
	case c.Phase == Setup && r.terminating:
		return fmt.Errorf("I16: SyncPod of %s although it was asked to stop", l.uid)
	case c.Phase == Terminated && l.setup && !l.terminatedOK:
		return fmt.Errorf("I11: SyncTerminatedPod of %s before SyncTerminatingPod succeeded", l.uid)
	case c.Grace != nil && (*c.Grace < 1 || l.grace != 0 && *c.Grace > l.grace):
		return fmt.Errorf("I5: grace of %s is %d after %d", l.uid, *c.Grace, l.grace)
	case c.Grace == nil && l.grace != 0 && c.Phase == Terminating:
		return fmt.Errorf("I5: grace of %s is unset after %d", l.uid, l.grace)
	case c.NeedsView && r.lastEnd != 0 && c.After != l.end:
		return fmt.Errorf("I14: view of %s may be older than its last call", l.uid)
	}
	if c.Phase == Terminating && l.status != statusOf(c.StatusFunc) {
		return fmt.Errorf("I18: status function of %s is %q, want %q", l.uid, statusOf(c.StatusFunc), l.status)
	}
	l.call, l.away = c, false
	l.setup = l.setup || c.Phase == Setup
	if c.Grace != nil {
		l.grace = *c.Grace
	}
	return nil
}

func statusOf(f func(*v1.PodStatus)) string {
	if f == nil {
		return ""
	}
	var s v1.PodStatus
	f(&s)
	return s.Reason
}

const (
	bitStarted = 1 << iota
	bitTerminating
	bitDeleted
	bitEvicted
	bitTerminated
	bitFinished
	bitStartedTerminating
)

func (r *record) latched() uint8 {
	f := r.facts().bits() &^ bitStarted
	if r.started {
		f |= bitStarted
	}
	if r.startedTerminating {
		f |= bitStartedTerminating
	}
	return f
}

// predicateBits are the predicates of spec/podworkers.md 11 that only go from
// false to true within a life.
func (m *Machine) predicateBits(uid types.UID) uint8 {
	var b uint8
	for i, p := range []bool{
		m.KnownTerminated(uid), !m.CouldHaveRunningContainers(uid), m.ShouldBeFinished(uid), m.IsTerminationRequested(uid),
		m.ContainersShouldBeTerminating(uid), m.RuntimeShouldBeRemoved(uid), m.ContentShouldBeRemoved(uid),
	} {
		if p {
			b |= 1 << i
		}
	}
	return b
}

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
			return fmt.Errorf("I20: %s belongs to nobody and is kept", name)
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
	var slots [classes]int
	inFlight := 0
	for _, r := range m.records {
		if r.step == calling {
			slots[classOf(r.call.Phase)]++
		}
		if r.step == calling || r.step == viewing {
			inFlight++
		}
	}
	if slots != m.slots || inFlight != m.inFlight {
		return fmt.Errorf("count: slots %v in flight %d, counted %v %d", slots, inFlight, m.slots, m.inFlight)
	}
	for c := range m.ready {
		n := 0
		for r := m.ready[c].head; r != nil; r = r.next {
			if n++; m.records[r.uid] != r || r.step != ready || int(r.class) != c || classOf(r.phase()) != r.class {
				return fmt.Errorf("I20: %s is in queue %d by mistake", r.uid, c)
			}
		}
		if n != m.ready[c].len {
			return fmt.Errorf("count: queue %d has %d records, %d counted", c, n, m.ready[c].len)
		}
	}
	for i, t := range m.timers.heap {
		if m.records[t.rec.uid] != t.rec || t.rec.due != t.due || int(t.rec.dueSlot) != i+1 || i > 0 && m.timers.less(i, (i-1)/2) {
			return fmt.Errorf("I20: timer %d of %s is wrong", i, t.rec.uid)
		}
	}
	return nil
}

// Moves: what the outside does. Each returns whether it was possible.

func (w *world) update(u Update) (Outcome, error) {
	uid := updateUID(&u)
	l := w.life(uid)
	r := w.m.records[uid]
	if u.Kill != nil && u.Kill.StatusFunc != nil && !w.m.stopping && !w.m.draining {
		// The last status function counts while the pod is asked to stop and
		// has not stopped (I18).
		willStop := r != nil && r.terminating || u.Type == TypeKill || u.Pod != nil && (u.Pod.DeletionTimestamp != nil || terminalPhase(u.Pod))
		terminated := r != nil && r.terminated || r == nil && u.ViewStopped && terminalPhase(u.Pod)
		create := r != nil && r.terminating && u.Type == TypeCreate
		if willStop && !terminated && !create {
			l.status = statusOf(u.Kill.StatusFunc)
		}
	}
	ev := Event{Kind: EventUpdate, Update: u}
	err := w.apply(&ev)
	return ev.Answer.Outcome, err
}

func (w *world) take(uid types.UID) (bool, error) {
	r := w.m.records[uid]
	if r == nil || r.step != ready || w.m.stopping {
		return false, nil
	}
	return true, w.apply(&Event{Kind: EventTake, UID: uid})
}

func (w *world) observe(uid types.UID, o Observation) (bool, error) {
	r := w.m.records[uid]
	if r == nil || r.step != observing {
		return false, nil
	}
	return true, w.apply(&Event{Kind: EventObserved, UID: uid, Observed: o})
}

func (w *world) done(uid types.UID, result Result) (bool, error) {
	l := w.life(uid)
	if l.call == nil || l.away && result.Failure != FailureView {
		return false, nil
	}
	r := w.m.records[uid]
	if l.away && r.step != viewing {
		return false, nil
	}
	c := l.call
	if result.Failure != FailureView && result.Failure != FailureJournal {
		w.stamp++
		result.End = w.stamp
		l.end = w.stamp
	}
	switch {
	case result.Err != nil:
	case c.Phase == Terminating || c.Phase == TerminatingRuntime:
		l.terminatedOK, l.status = true, ""
	case c.Phase == Terminated:
		l.finishedOK = true
	}
	l.call, l.away = nil, false
	return true, w.apply(&Event{Kind: EventDone, Call: c, Result: result})
}

func (w *world) stale(uid types.UID) (bool, error) {
	l := w.life(uid)
	if l.call == nil || l.away || !l.call.NeedsView || l.call.Viewed {
		return false, nil
	}
	c := l.call
	l.away = true
	ended := c.cause != CauseNone
	if ended {
		l.call = nil
	}
	ev := Event{Kind: EventStale, Call: c}
	if err := w.apply(&ev); err != nil {
		return true, err
	}
	if ev.Answer.Continue == ended {
		return true, fmt.Errorf("V5: the call of %s was cancelled: %v, and goes on waiting: %v", uid, ended, ev.Answer.Continue)
	}
	return true, nil
}

func (w *world) viewReady(uid types.UID) (bool, error) {
	l := w.life(uid)
	r := w.m.records[uid]
	if l.call == nil || !l.away || r.step != viewing {
		return false, nil
	}
	c := l.call
	if c.cause != CauseNone {
		l.call = nil
	}
	return true, w.apply(&Event{Kind: EventViewReady, Call: c})
}

// elapse lets time pass until the timer of uid fires, and no other: which of two
// timers is first is the world's choice.
func (w *world) elapse(uid types.UID) (bool, error) {
	r := w.m.records[uid]
	if r == nil || r.dueSlot == 0 {
		return false, nil
	}
	w.m.timers.set(r, w.now)
	for _, o := range w.m.records {
		if o != r && o.dueSlot != 0 && o.due <= w.now {
			w.m.timers.set(o, w.now+1)
		}
	}
	return true, w.apply(&Event{Kind: EventTick})
}

var errTest = errors.New("failed")

// clone copies a world so that both can go on. History is left out: it has no
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
	for i := range m.ready {
		m.ready[i].head, m.ready[i].tail = moved(m.ready[i].head), moved(m.ready[i].tail)
	}
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
	for i := range c.lives {
		l := &c.lives[i]
		l.open = slices.Clone(l.open)
		if l.call != nil {
			l.call = m.records[l.uid].call
		}
	}
	return c
}

// key is everything about the world that can influence what it does next, or
// what is checked: two worlds with the same key behave alike. Left out are times
// (elapse chooses), the order of the queues (take chooses), types and mirrors of
// updates and counts of failures (they change what is told, not what happens).
// order is the order in which the UIDs are written. full adds what matters to one
// pod only and never to the other: flags that are only told, the grace period, the
// status function. One pod is explored with it to the end, so pairs need it not.
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
		if r == nil {
			buf = append(buf, '-', byte(len(l.open)))
			continue
		}
		spec := func(pod *v1.Pod) byte {
			if pod != nil && r.terminating {
				return 1 // its grace has been taken, its phase and deletion too
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
				flags(o.Known, o.Running, len(o.Others) > 0)
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
