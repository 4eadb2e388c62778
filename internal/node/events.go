package node

import (
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/problem"
)

const (
	// eventPromptly is how long a caller waits for the recorder before it goes on, eventWaits how
	// often in eventPeriod that may be in vain: many events together cost callers 100 ms in 10 s.
	eventPromptly = 10 * time.Millisecond
	eventWaits    = 10
	eventPeriod   = 10 * time.Second
	// eventsKept is how many events of one object wait for the recorder.
	eventsKept = 64
)

// Events hands events to the user's recorder, which may panic or not return: neither harms the
// caller, and events of other objects go on (IN6). Events of one object keep their order; those
// more than 64 behind are dropped.
type Events struct {
	Recorder podinfo.EventRecorder
	Clock    clock.Clock
	Logger   logr.Logger

	mu     sync.Mutex
	queues map[types.UID]*eventQueue
	// vain counts the waits in vain since vainSince.
	vain      int
	vainSince time.Time
	// idle is closed when the recorder has taken everything; nil: nothing waits for that.
	idle chan struct{}
}

// eventQueue holds what the recorder has not yet taken of one object.
type eventQueue struct {
	since   time.Time // of the call in progress
	waiting []func()
	dropped int
}

// Eventf implements [podinfo.EventRecorder].
func (e *Events) Eventf(object apiruntime.Object, kind, reason, format string, args ...any) {
	uid, text := objectUID(object), fmt.Sprintf(format, args...)
	send := func() { e.Recorder.Eventf(object, kind, reason, "%s", text) }
	done, patient := e.enqueue(uid, send)
	if done == nil || !patient {
		return
	}
	timer := e.Clock.NewTimer(eventPromptly)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C():
		e.waitedInVain()
	}
}

// enqueue queues an event to be sent. done is closed once it was sent, and nil if the event waits
// for others; patient is false while the recorder has let callers wait in vain too often.
func (e *Events) enqueue(uid types.UID, send func()) (done chan struct{}, patient bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if q := e.queues[uid]; q != nil {
		if len(q.waiting) < eventsKept {
			q.waiting = append(q.waiting, send)
		} else {
			q.dropped++
		}
		return nil, false
	}
	now := e.Clock.Now()
	patient = e.vain < eventWaits || now.Sub(e.vainSince) >= eventPeriod
	if e.queues == nil {
		e.queues = map[types.UID]*eventQueue{}
	}
	q := &eventQueue{since: now}
	e.queues[uid], done = q, make(chan struct{})
	go func() {
		e.call(send)
		for next := e.next(uid, q); next != nil; next = e.next(uid, q) {
			e.call(next)
		}
		close(done)
	}()
	return done, patient
}

// waitedInVain records that the recorder did not return.
func (e *Events) waitedInVain() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := e.Clock.Now(); e.vain == 0 || now.Sub(e.vainSince) >= eventPeriod {
		e.vain, e.vainSince = 0, now
	}
	e.vain++
}

// Leave waits at the end of a run until the recorder has taken what was handed to it, for 5 s at
// most, and logs what it has not taken.
func (e *Events) Leave() {
	timer := e.Clock.NewTimer(foreign.LeaveLimit)
	defer timer.Stop()
	select {
	case <-e.taken():
	case <-timer.C():
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for uid, q := range e.queues {
		e.Logger.Error(errDeaf, "The engine ends without the event recorder, and its goroutine is lost", "uid", uid, "waiting", len(q.waiting))
	}
}

// taken returns a channel that is closed once nothing waits for the recorder.
func (e *Events) taken() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	idle := make(chan struct{})
	if len(e.queues) == 0 {
		close(idle)
		return idle
	}
	e.idle = idle
	return idle
}

// next returns the next event of an object, nil after the last.
func (e *Events) next(uid types.UID, q *eventQueue) (send func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(q.waiting) == 0 {
		delete(e.queues, uid)
		if len(e.queues) == 0 && e.idle != nil {
			close(e.idle)
			e.idle = nil
		}
		if q.dropped > 0 {
			e.Logger.Info("Events were dropped, because the recorder was too slow", "uid", uid, "count", q.dropped)
		}
		return nil
	}
	send, q.waiting, q.since = q.waiting[0], q.waiting[1:], e.Clock.Now()
	return send
}

// call calls the recorder; a panic is logged.
func (e *Events) call(send func()) {
	defer func() {
		if p := recover(); p != nil {
			e.Logger.Error(fmt.Errorf("panic: %v", p), "The event recorder panicked", "stack", string(debug.Stack()))
		}
	}()
	send()
}

// Problems returns a problem for each object of which the recorder has not taken an event for 10 s.
func (e *Events) Problems() []problem.Problem {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []problem.Problem
	for uid, q := range e.queues {
		if e.Clock.Since(q.since) >= problem.FunctionLimit {
			out = append(out, problem.Problem{
				Kind: problem.Function, Severity: problem.Listed, Name: "Observe.Events", UID: uid, Since: q.since,
				Waits:  fmt.Sprintf("the event recorder to take an event of %s", uid),
				Advice: "look at what the recorder waits for; events of this object queue up, and the oldest 64 are kept",
			})
		}
	}
	return out
}

// objectUID is the UID of an event's object.
func objectUID(object apiruntime.Object) types.UID {
	switch o := object.(type) {
	case *v1.Pod:
		return o.UID
	case *v1.ObjectReference:
		return o.UID
	}
	return ""
}
