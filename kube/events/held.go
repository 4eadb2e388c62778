package events

import (
	"maps"
	"time"

	"github.com/podwright/podwright/kube/internal/spread"
)

const (
	// maxTries is how often an event is sent that the server fails to store while it stores those of others.
	maxTries = 5
	// maxHeld is for how long an event is sent again if no other is stored meanwhile.
	maxHeld = 10 * time.Minute
	// heldFor is how long a namespace without another event is remembered after its pause, so that it goes on
	// coming after the others.
	heldFor = time.Hour
	// several namespaces that fail while no event is stored mean that the server fails.
	several = 3
)

// held are the namespaces with events that the server did not store, for example because an admission
// webhook is down or the namespace has too many events. They have pauses, and come after the other namespaces. Only
// Run uses it.
type held map[string]*hold

// hold is one such namespace.
type hold struct {
	// failures counts those since an event of the namespace was stored.
	failures int
	// until is when its pause is over.
	until time.Time
	// alone means that no event of another namespace was stored since this one's last event failed for the first time,
	// or since the server was away for it.
	alone bool
}

// hold puts back or drops an event that the server did not store, and lets its namespace wait. It returns
// the pause that all namespaces make.
func (r *Recorder) hold(e *outgoing, err error, why judgment) (pause time.Duration) {
	namespace, now := e.event.Namespace, r.options.Clock.Now()
	h := r.held[namespace]
	if h == nil {
		h = &hold{}
		r.held[namespace] = h
	}
	h.failures++
	h.until = now.Add(spread.Out(pauseAfter(err, h.failures), r.options.Node+namespace, now))
	if why == away { // this says nothing about the event, which is not dropped for it
		r.away++
		e.since, h.alone = now, true
	} else if e.tries++; e.tries == 1 {
		e.since, h.alone = now, true
	}
	if why == failed && (!h.alone && e.tries >= maxTries || now.Sub(e.since) >= maxHeld) {
		r.queue.drop()
	} else {
		r.queue.putBack(e)
	}
	if alone := r.held.alone(); alone >= several {
		pause = spread.Out(pauseAfter(err, max(alone, r.away)-several+1), r.options.Node, now)
	}
	return pause
}

// release ends all pauses: what waits is sent now or not at all.
func (h held) release(now time.Time) {
	for _, n := range h {
		if n.until.After(now) {
			n.until = now
		}
	}
}

// stored notes that the server stored an event of a namespace, so it fails because of the others.
func (h held) stored(namespace string) {
	delete(h, namespace)
	for _, n := range h {
		n.alone = false
	}
}

// alone counts the namespaces that failed since an event was stored.
func (h held) alone() (count int) {
	for _, n := range h {
		if n.alone {
			count++
		}
	}
	return count
}

// turn returns since when a namespace may send; the zero time is that of one that is not held. ok is false
// during a pause.
func (h held) turn(namespace string, now time.Time) (at time.Time, ok bool) {
	n := h[namespace]
	if n == nil {
		return time.Time{}, true
	}
	return n.until, !now.Before(n.until)
}

// forget drops namespaces whose pause was over some time ago. None of their events may wait.
func (h held) forget(now time.Time) {
	maps.DeleteFunc(h, func(_ string, n *hold) bool { return now.Sub(n.until) >= heldFor })
}

// earliest returns when the first of the current pauses is over.
func (h held) earliest(now time.Time) (until time.Time, ok bool) {
	for _, n := range h {
		if n.until.After(now) && (!ok || n.until.Before(until)) {
			until, ok = n.until, true
		}
	}
	return until, ok
}
