package node

import (
	"cmp"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
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
	// eventsKept is how many events of one object wait for the recorder, allEventsKept how many of all.
	eventsKept    = 64
	allEventsKept = 4096
	// eventCalls is how many calls of the recorder are under way at once, eventObjectsNamed how many of their
	// objects a problem names.
	eventCalls        = 64
	eventObjectsNamed = 5
)

// Events hands events to the user's recorder, which may panic or not return: neither harms the
// caller, and events of other objects go on while fewer than 64 objects' calls hang (IN6). Events of one
// object keep their order; those more than 64 behind, or 4,096 of all objects, are dropped.
type Events struct {
	Recorder podinfo.EventRecorder
	Clock    clock.Clock
	Logger   logr.Logger

	mu sync.Mutex
	// queues holds the objects of which the recorder has not taken everything, line those of them whose
	// first call has not begun, in order. waiting counts the events in all queues, calls the goroutines.
	queues         map[types.UID]*eventQueue
	line           []*eventQueue
	waiting, calls int
	// dropped counts the events dropped since the recorder had last taken everything.
	dropped int
	// vain counts the waits in vain since vainSince.
	vain      int
	vainSince time.Time
	// idle is closed when the last goroutine ends: the recorder has taken everything, and what was
	// dropped is logged. nil: nothing waits for that.
	idle chan struct{}
}

// eventQueue holds what the recorder has not yet taken of one object.
type eventQueue struct {
	uid     types.UID
	since   time.Time // of the call in progress; zero: none
	waiting []func()
	done    chan struct{} // closed once it is empty
}

// Eventf implements [podinfo.EventRecorder].
func (e *Events) Eventf(object apiruntime.Object, kind, reason, format string, args ...any) {
	uid, text := objectUID(object), podinfo.Message(fmt.Sprintf(format, args...))
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
	q, behind := e.queues[uid]
	if e.waiting >= allEventsKept || behind && len(q.waiting) >= eventsKept {
		e.dropped++
		return nil, false
	}
	e.waiting++
	if behind {
		q.waiting = append(q.waiting, send)
		return nil, false
	}
	if e.queues == nil {
		e.queues = map[types.UID]*eventQueue{}
	}
	q = &eventQueue{uid: uid, waiting: []func(){send}, done: make(chan struct{})}
	e.queues[uid] = q
	if e.calls >= eventCalls {
		e.line = append(e.line, q)
		return nil, false
	}
	e.calls++
	q.since = e.Clock.Now()
	go e.serve(q)
	return q.done, e.vain < eventWaits || q.since.Sub(e.vainSince) >= eventPeriod
}

// serve sends the events of one object, then those of the objects in line.
func (e *Events) serve(q *eventQueue) {
	calling := false
	defer func() {
		if calling { // the recorder has ended the goroutine (runtime.Goexit): the next events have another one
			go e.serve(q)
			e.Logger.Error(errRecorderExited, "The event recorder ended its goroutine")
		}
	}()
	for q != nil {
		send, dropped := e.next(q)
		for ; send != nil; send, dropped = e.next(q) {
			calling = true
			e.call(send)
			calling = false
		}
		close(q.done)
		if dropped > 0 {
			e.Logger.Info("Events were dropped, because the recorder was too slow", "count", dropped)
		}
		q = e.inLine()
	}
}

// errRecorderExited says what a test's recorder that fails its test from another goroutine does.
var errRecorderExited = errors.New("runtime.Goexit instead of a return, as by testing.T.FailNow")

// inLine returns the object that is first in line, nil if there is none: then the goroutine ends.
func (e *Events) inLine() *eventQueue {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.line) == 0 {
		if e.calls--; e.calls == 0 && e.idle != nil {
			close(e.idle)
			e.idle = nil
		}
		return nil
	}
	q := e.line[0]
	e.line[0] = nil
	e.line = e.line[1:]
	return q
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
// most, and logs what it has not taken: not under the lock, because a logger may block.
func (e *Events) Leave() {
	timer := e.Clock.NewTimer(foreign.LeaveLimit)
	defer timer.Stop()
	select {
	case <-e.taken():
	case <-timer.C():
	}
	hung, line, dropped := e.left()
	for uid, waiting := range hung {
		e.Logger.Error(foreign.ErrDeaf, "The engine ends without the event recorder, and its goroutine is lost", "uid", uid, "waiting", waiting)
	}
	if line > 0 || dropped > 0 {
		e.Logger.Info("The event recorder has not taken everything", "objects", line, "dropped", dropped)
	}
}

// left returns what the recorder has not taken: how many events wait behind a call that has not
// returned, by object, how many objects are in line, and how many events were dropped.
func (e *Events) left() (hung map[types.UID]int, line, dropped int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	hung = map[types.UID]int{}
	for uid, q := range e.queues {
		if !q.since.IsZero() {
			hung[uid] = len(q.waiting)
		}
	}
	return hung, len(e.line), e.dropped
}

// taken returns a channel that is closed once nothing waits for the recorder.
func (e *Events) taken() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	idle := make(chan struct{})
	if e.calls == 0 {
		close(idle)
		return idle
	}
	e.idle = idle
	return idle
}

// next returns the next event of an object, nil after the last. If that was the last of all, dropped
// is how many were dropped meanwhile: the caller logs it, because a logger may block and the lock holds
// up everything that tells an event.
func (e *Events) next(q *eventQueue) (send func(), dropped int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(q.waiting) > 0 {
		send, q.waiting, q.since = q.waiting[0], q.waiting[1:], e.Clock.Now()
		e.waiting--
		return send, 0
	}
	delete(e.queues, q.uid)
	if len(e.queues) == 0 {
		dropped, e.dropped = e.dropped, 0
	}
	return nil, dropped
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

// Problems returns a problem if the recorder has not taken an event for 10 s: one, of however many objects.
func (e *Events) Problems() []problem.Problem {
	e.mu.Lock()
	defer e.mu.Unlock()
	var late []*eventQueue
	for _, q := range e.queues {
		if !q.since.IsZero() && e.Clock.Since(q.since) >= problem.FunctionLimit {
			late = append(late, q)
		}
	}
	if len(late) == 0 {
		return nil
	}
	slices.SortFunc(late, func(a, b *eventQueue) int { return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.uid, b.uid)) })
	var names []string
	for _, q := range late[:min(len(late), eventObjectsNamed)] {
		names = append(names, string(q.uid))
	}
	if more := len(late) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return []problem.Problem{{
		Kind: problem.Function, Severity: problem.Listed, Name: "Observe.Events", UID: late[0].uid, Since: late[0].since,
		Waits:  "the event recorder to take an event of " + strings.Join(names, ", "),
		Advice: fmt.Sprintf("look at what the recorder waits for; %d events queue up, and %d were dropped", e.waiting, e.dropped),
	}}
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
