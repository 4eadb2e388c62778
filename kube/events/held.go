package events

import (
	"maps"
	"time"

	"k8s.io/client-go/tools/record"

	"github.com/podwright/podwright/kube/internal/spread"
)

const (
	// maxTries is how often an event is sent that the server fails to store.
	maxTries = 5
	// heldFor is how long a namespace without another event is remembered after its pause.
	heldFor = time.Minute
)

// outgoing is an event that is being sent; tries counts the failures to store it.
type outgoing struct {
	result *record.EventCorrelateResult
	tries  int
}

// held are the namespaces whose events the server fails to store, for example because an admission
// webhook is down. Their events wait, those of others do not. Only Run uses it.
type held map[string]*hold

// hold is a namespace that waits until a moment, with the event that is then sent again. The event is
// nil if it was dropped. failures counts the failures since one was stored.
type hold struct {
	event    *outgoing
	failures int
	until    time.Time
}

// hold lets the namespace of an event wait that the server failed to store; the last try drops the event.
func (r *Recorder) hold(e *outgoing, err error) {
	namespace, now := e.result.Event.Namespace, r.options.Clock.Now()
	h := r.held[namespace]
	if h == nil {
		h = &hold{}
		r.held[namespace] = h
	}
	e.tries++
	h.failures++
	h.event, h.until = e, now.Add(spread.Out(pauseAfter(err, h.failures), r.options.Node+namespace, now))
	if e.tries >= maxTries {
		h.event = nil
		r.queue.drop()
	}
}

// due returns an event that is to be sent again now, nil if there is none.
func (h held) due(now time.Time) *outgoing {
	maps.DeleteFunc(h, func(_ string, n *hold) bool { return n.event == nil && now.Sub(n.until) >= heldFor })
	for _, n := range h {
		if n.event != nil && !now.Before(n.until) {
			return n.event
		}
	}
	return nil
}

// waits reports whether queued events of a namespace wait.
func (h held) waits(namespace string, now time.Time) bool {
	n := h[namespace]
	return n != nil && (n.event != nil || now.Before(n.until))
}

// earliest returns when the first of the namespaces that wait now has waited long enough.
func (h held) earliest(now time.Time) (until time.Time, ok bool) {
	for _, n := range h {
		if n.until.After(now) && (!ok || n.until.Before(until)) {
			until, ok = n.until, true
		}
	}
	return until, ok
}

// release ends the wait of a namespace.
func (h held) release(namespace string) { delete(h, namespace) }
