package machine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime"
)

// world is a machine together with what an outsider can know about it: which
// calls run, which completions are open, what each life has seen. The invariants
// I1 to I26 of spec/podworkers.md 15 are checked against it after every event.
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
	away bool  // the call waits for its view and does not run

	open   []chan<- struct{} // completions given and not closed
	status string            // the reason the last status function writes
	end    runtime.Stamp     // of the last call, across lives of the record

	// Since the record was created:
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
	reported := map[types.UID]bool{}
	pendingBefore := false
	var doneUID types.UID
	if ev.Kind == EventSyncKnown {
		yield := ev.Known
		ev.Known = func(uid types.UID, k PodSync) {
			reported[uid] = k.Restart
			yield(uid, k)
		}
	}
	restarts := ev.Kind == EventUpdate && ev.Update.Type == TypeRestart && !w.m.stopping && !w.m.draining && w.m.ShouldBeFinished(updateUID(&ev.Update))
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
	stopping := w.m.stopping
	w.fx = w.m.Apply(ev, w.now, noJitter, w.fx[:0])
	for i := range w.fx {
		if err := w.follow(&w.fx[i], ev, desired); err != nil {
			return err
		}
	}
	if pendingBefore && !w.m.stopping {
		if r := w.m.records[doneUID]; r != nil && !r.finished && r.step != ready {
			return fmt.Errorf("I15: an update came while the call of %s ran, and no round follows", doneUID)
		}
	}
	if ev.Kind == EventSyncKnown {
		for _, uid := range desired {
			r := w.m.records[uid]
			if want := r != nil && r.finished && r.restartRequested && !stopping; want != reported[uid] {
				return fmt.Errorf("I24: %s is finished and is to live again: %v, this is reported: %v", uid, want, reported[uid])
			}
		}
	}
	if restarts {
		if r := w.m.records[updateUID(&ev.Update)]; r == nil || r.finished || r.restartRequested {
			return fmt.Errorf("I24: the next life of %s has not begun", updateUID(&ev.Update))
		}
	}
	if ev.Kind == EventDispatch && w.m.running && !w.m.stopping {
		for _, r := range w.m.records {
			if r.step == ready {
				return fmt.Errorf("L4: %s is ready and was not started", r.uid)
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

// follow checks one effect and records it.
func (w *world) follow(e *Effect, ev *Event, desired []types.UID) error {
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
		case ev.Kind == EventSyncKnown && slices.Contains(desired, e.UID):
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
	case c.Phase == Setup && len(w.m.holds[l.uid]) > 0:
		return fmt.Errorf("I26: SyncPod of %s while something of its earlier life is being removed", l.uid)
	case c.Phase == Setup && r.terminating:
		return fmt.Errorf("I16: SyncPod of %s although it was asked to stop", l.uid)
	case c.Phase == Terminated && l.setup && !l.terminatedOK:
		return fmt.Errorf("I11: SyncTerminatedPod of %s before SyncTerminatingPod succeeded", l.uid)
	case c.Grace != nil && (*c.Grace < 1 || l.grace != 0 && *c.Grace > l.grace):
		return fmt.Errorf("I5: grace of %s is %d after %d", l.uid, *c.Grace, l.grace)
	case c.Grace == nil && c.Phase == Terminating && r.grace != 0:
		return fmt.Errorf("I5: grace of %s is not passed on", l.uid)
	case c.NeedsView && r.lastEnd != 0 && c.After != l.end:
		return fmt.Errorf("I14: view of %s may be older than its last call", l.uid)
	}
	if c.Phase == Terminating && l.status != statusOf(c.StatusFunc) {
		return fmt.Errorf("I18: status function of %s is %q, want %q", l.uid, statusOf(c.StatusFunc), l.status)
	}
	l.call, l.away = c, false
	l.setup = l.setup || c.Phase == Setup
	if c.Phase == Terminating {
		l.grace = graceOf(c)
	}
	return nil
}

// graceOf is the grace that a terminating call gives the pod.
func graceOf(c *Call) int64 {
	if c.Grace != nil {
		return *c.Grace
	}
	return specGrace(c.Pod)
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
	facts := r.facts()
	facts.Amend = nil // it is dropped once it was reported: not a latched fact
	f := facts.bits() &^ bitStarted
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

// Moves are what the outside does. Each returns whether it was possible.

func (w *world) update(u Update) (Outcome, error) {
	uid := updateUID(&u)
	l := w.life(uid)
	r := w.m.records[uid]
	if u.Kill != nil && u.Kill.StatusFunc != nil && !w.m.stopping && !w.m.draining {
		// The last status function counts while the pod is asked to stop and
		// has not stopped (I18).
		willStop := r != nil && r.terminating || u.Type == TypeKill || u.Pod != nil && (u.Pod.DeletionTimestamp != nil || podinfo.Terminal(u.Pod.Status.Phase))
		terminated := r != nil && r.terminated || r == nil && u.ViewStopped && podinfo.Terminal(u.Pod.Status.Phase)
		create := r != nil && r.terminating && (u.Type == TypeCreate || u.Type == TypeRestart)
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

// elapse makes the timer of uid fire, and no other: the world chooses which of two
// timers is first.
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

// forget drops the record of uid if it is finished.
func (w *world) forget(uid types.UID) (bool, error) {
	r := w.m.records[uid]
	over := r != nil && r.finished
	ev := Event{Kind: EventForget, UID: uid}
	if err := w.apply(&ev); err != nil {
		return true, err
	}
	if over != ev.Answer.Forgotten || over && w.m.records[uid] != nil || !over && w.m.records[uid] != r {
		return true, fmt.Errorf("I12: %s was finished: %v, and is forgotten: %v", uid, over, ev.Answer.Forgotten)
	}
	return over, nil
}

// hold begins a removal of something of uid; there is at most one at a time.
func (w *world) hold(uid types.UID) (bool, error) {
	if len(w.m.holds[uid]) > 0 {
		return false, nil
	}
	r := w.m.records[uid]
	over := r == nil || r.terminated
	ev := Event{Kind: EventHold, UID: uid, Hold: Hold{Reason: "folder"}}
	if err := w.apply(&ev); err != nil {
		return true, err
	}
	if over != (ev.Answer.Hold != 0) || over != (len(w.m.holds[uid]) == 1) {
		return true, fmt.Errorf("I26: a removal of %s may begin: %v, its life is over: %v", uid, ev.Answer.Hold != 0, over)
	}
	return over, nil
}

// unhold ends the removal.
func (w *world) unhold(uid types.UID) (bool, error) {
	holds := w.m.holds[uid]
	if len(holds) == 0 {
		return false, nil
	}
	return true, w.apply(&Event{Kind: EventRelease, UID: uid, Hold: Hold{ID: holds[0].ID}})
}

var errTest = errors.New("failed")
