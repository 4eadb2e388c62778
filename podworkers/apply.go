package podworkers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/complaint"
	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/podworkers/internal/machine"
	"github.com/podwright/podwright/runtime"

	"github.com/go-logr/logr"
)

// batch is an event and the effects the machine answers with. Batches are pooled:
// an event on the stack would make the stack of every new goroutine grow.
type batch struct {
	event   machine.Event
	effects []machine.Effect
}

// event returns a batch with an event of this kind, to be filled in and applied.
func (w *Workers) event(kind machine.EventKind) *batch {
	b := w.batches.Get().(*batch) //nolint:forcetypeassert // the pool holds nothing else
	b.event.Kind = kind
	return b
}

// apply gives the event to the machine, starts what became ready, carries out the
// effects, and releases the batch. self is the call whose goroutine this is, nil on
// any other goroutine. For a call's goroutine it returns the call to continue with,
// which saves starting another goroutine: self if it was started again, otherwise
// any call.
func (w *Workers) apply(b *batch, self *call) (next *call, answer machine.Answer) {
	w.mu.Lock()
	now := w.now()
	b.effects = w.machine.Apply(&b.event, now, w.options.Rand, b.effects[:0])
	w.dispatchReady(b, now, self != nil && b.event.Kind != machine.EventStale)
	outside := false
	for i := range b.effects {
		outside = w.underLock(&b.effects[i], now) || outside
	}
	w.releaseWaiting()
	if due, ok := w.machine.NextDue(); ok && due < w.armed {
		w.armed = due
		w.rearm()
	}
	if w.machine.Idle() && w.state != notRun {
		w.signalIdle()
	}
	root := w.root
	w.mu.Unlock()

	if outside {
		next = w.carryOut(root, b.effects, self)
	}
	answer = b.event.Answer
	clear(b.effects)
	b.event = machine.Event{}
	w.batches.Put(b)
	return next, answer
}

// signalIdle closes w.idle once. The lock is held.
func (w *Workers) signalIdle() {
	select {
	case <-w.idle:
	default:
		close(w.idle)
	}
}

// underLock carries out the effects that must keep the machine's order, and reports
// whether others remain for after the lock.
func (w *Workers) underLock(e *machine.Effect, now time.Duration) bool {
	switch e.Kind {
	case machine.EffectStartCall:
		handle(e.Call).enter(stepCall, now)
	case machine.EffectCloseCompletion:
		if outcome := e.Completion.Outcome; outcome != nil {
			*outcome = e.Completed
		}
		closeOnce(e.Completion.Ch)
		return false
	case machine.EffectForget, machine.EffectDrained:
		return false
	}
	return true
}

// closeOnce closes a channel that may have been closed in an earlier life of its
// pod, because callers may pass the same channel twice (Q5).
func closeOnce(ch chan<- struct{}) {
	if ch == nil {
		return
	}
	defer func() { _ = recover() }()
	close(ch)
}

// carryOut carries out the effects that may call foreign code.
func (w *Workers) carryOut(root context.Context, list []machine.Effect, self *call) *call {
	var next *call
	for i := range list {
		if list[i].Kind != machine.EffectStartCall {
			continue
		}
		switch c := handle(list[i].Call); {
		case self == nil:
			w.spawn(c)
		case c == self:
			w.spawn(next)
			next = c
		case next == nil:
			next = c
		default:
			w.spawn(c)
		}
	}
	for i := range list {
		switch e := &list[i]; e.Kind {
		case machine.EffectCancelCall:
			handle(e.Call).cancel(e.Cause)
		case machine.EffectRefresh:
			w.refresh(e.UID)
		case machine.EffectObserve:
			w.observe(e)
		case machine.EffectWarn:
			w.warn(e)
		case machine.EffectCutRemoval:
			if cut, ok := e.Handle.(context.CancelCauseFunc); ok {
				cut(errWanted)
			}
		case machine.EffectMetric:
			if root != nil {
				w.measure(root, e)
			}
		}
	}
	return next
}

func (w *Workers) refresh(uid types.UID) {
	defer w.harmless(uid, "ask for a new view")
	if w.options.Views != nil {
		w.options.Views.Refresh(uid)
	}
}

func (w *Workers) measure(root context.Context, e *machine.Effect) {
	defer w.harmless(e.UID, "measure")
	w.metrics.record(root, e)
}

func handle(c *machine.Call) *call {
	h, _ := c.Handle.(*call)
	return h
}

// observe reads the runtime for a static pod that wants to start, or was told to
// stop before it started (W6, N6).
func (w *Workers) observe(e *machine.Effect) {
	b := w.event(machine.EventObserved)
	b.event.UID, b.event.Observed = e.UID, w.look(e)
	w.apply(b, nil)
}

// look makes the observation, which has failed if code of others panics. It is repeated each second, so what failed is
// not logged each time.
func (w *Workers) look(e *machine.Effect) (seen machine.Observation) {
	seen.Failed = true
	defer func() {
		var err error
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
		w.looks.note(w.options.Logger.WithValues("uid", e.UID), e.UID, w.options.Clock.Now(), err)
	}()
	o := machine.Observation{Known: true}
	if w.peeker != nil {
		status, err := w.peeker.Peek(e.UID)
		o.Known = err == nil
		o.Running = err == nil && status.Running()
	}
	if w.options.SourcesReady != nil {
		sourcesReady := w.options.SourcesReady()
		o.SourcesReady = &sourcesReady
	}
	if w.lister != nil {
		mayKill := o.SourcesReady == nil || *o.SourcesReady
		for _, other := range w.lister.RunningAs(e.Pod.Namespace, e.Pod.Name) {
			o.Others = append(o.Others, w.other(e.Pod, other, mayKill))
		}
	}
	return o
}

// looks is what was logged about the looks at the runtime that failed, by pod.
type looks struct {
	mu     sync.Mutex
	failed map[types.UID]failedLook
}

// failedLook is the latest look of a pod, which failed at that time.
type failedLook struct {
	said complaint.Complaint
	at   time.Time
}

// A failed look is repeated within 1.5 s, so a pod of which nothing is heard for looksEnd is gone or looks no more. Such
// pods are forgotten once as many as maxLooks are remembered.
const (
	maxLooks = 1000
	looksEnd = time.Minute
)

// note logs the outcome of a look, if it is news. It does so on a copy and without the lock: two lives of a UID may look
// at once, and a logger may block. Of two looks at once, the one that ends last is remembered.
func (l *looks) note(log logr.Logger, uid types.UID, now time.Time, err error) {
	l.mu.Lock()
	said := l.failed[uid].said
	l.mu.Unlock()
	said.Note(log, now, err, "Look whether the pod or its name runs failed", "Look whether the pod or its name runs works again")
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		delete(l.failed, uid)
		return
	}
	if l.failed == nil {
		l.failed = map[types.UID]failedLook{}
	}
	if _, known := l.failed[uid]; !known && len(l.failed) >= maxLooks {
		maps.DeleteFunc(l.failed, func(_ types.UID, f failedLook) bool { return now.Sub(f.at).Abs() > looksEnd })
	}
	l.failed[uid] = failedLook{said, now}
}

// other adds what is remembered about a pod that runs under the name of another one, if it
// may be killed for that.
func (w *Workers) other(pod *v1.Pod, running *runtime.Pod, mayKill bool) machine.Other {
	o := machine.Other{Running: running}
	if !mayKill || running.UID == pod.UID || w.IsPodKnown(running.UID) {
		return o
	}
	if o.Spared = w.options.Spared != nil && w.options.Spared(running.UID, pod); o.Spared || w.options.KillOrphan == nil {
		return o
	}
	update := w.options.KillOrphan(running)
	if update.Pod == nil || update.Pod.UID != running.UID {
		return o
	}
	o.Pod, o.Kill = update.Pod, killOf(update.Kill)
	return o
}

// warn writes a Warning event and a log line.
func (w *Workers) warn(e *machine.Effect) {
	switch e.Warning {
	case machine.WarnFailedSync:
		w.options.Logger.Info("no syncer call was made", "uid", e.UID, "reason", e.Err.Error())
		w.tell(e.Pod, "FailedSync", "error determining status: %v", e.Err)
	case machine.WarnPanic:
		stack := ""
		if panicked := (*foreign.PanicError)(nil); errors.As(e.Err, &panicked) {
			stack = panicked.Trace() // neither the event nor Explain has it
		}
		w.options.Logger.Error(e.Err, "syncer call panicked", "uid", e.UID, "count", e.Count, "stack", stack)
		w.tell(e.Pod, "SyncPanic", "syncing the pod panicked, %d times so far: %v", e.Count, e.Err)
	case machine.WarnStuck:
		w.options.Logger.Info("syncer call goes on after it was cancelled", "uid", e.UID, "after", w.options.StuckAfter.String())
		w.tell(e.Pod, "SyncStuck", "a cancelled call did not end within %v", w.options.StuckAfter)
	}
}

func (w *Workers) tell(pod *v1.Pod, reason, format string, args ...any) {
	if w.options.Events != nil && pod != nil {
		defer w.harmless(pod.UID, "record an event")
		w.options.Events.Eventf(pod, v1.EventTypeWarning, reason, format, args...)
	}
}
