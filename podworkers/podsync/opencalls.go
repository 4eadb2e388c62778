package podsync

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/runtime/cri"
)

const (
	// startTimeout is how long a step that was cancelled waits for a start that is under
	// way. Starts take a fraction of a second; a runtime that hangs must not keep an agent
	// from exiting, or a pod's other containers from being stopped.
	startTimeout = 3 * time.Second
	// openLimit is how long such a start may continue without its step. A runtime leaves
	// more behind when a call is cancelled than when it may finish the call (RT3).
	openLimit = 4 * time.Minute
	// lateCompletion is how long a runtime may still complete a call that was cancelled or
	// timed out.
	lateCompletion = 10 * time.Second
)

// openCalls tracks the starts that have not been answered, and those that have ended with an
// unknown outcome (RT1).
type openCalls struct {
	clock clock.PassiveClock
	// going counts the goroutines of calls.
	going sync.WaitGroup

	mu     sync.Mutex
	byPod  map[types.UID]map[*openCall]struct{}
	closed bool
	// uncertain are the pods for which a call may have made something whose ID is unknown.
	uncertain map[types.UID]struct{}
}

// openCall is one of these starts.
type openCall struct {
	name   string
	since  time.Time
	cancel context.CancelCauseFunc
	// latestEnd is when a call that has ended can have no further effect; zero while it has not ended.
	latestEnd time.Time
}

// outcomeKnown reports whether the call can have no further effect.
func (c *openCall) outcomeKnown(now time.Time) bool {
	return !c.latestEnd.IsZero() && !now.Before(c.latestEnd)
}

// unansweredError names the call that a pod waits for.
type unansweredError struct {
	call  string
	since time.Time
	ended bool
	cause error // why the step no longer waits
}

func (e *unansweredError) Error() string {
	at := e.since.UTC().Format(time.RFC3339)
	if e.ended {
		return fmt.Sprintf("%s, called at %s, was cut off; the runtime may still complete it", e.call, at)
	}
	return fmt.Sprintf("%s, called at %s, has not been answered; its outcome is awaited", e.call, at)
}

func (e *unansweredError) Unwrap() error { return e.cause }

func newOpenCalls(c clock.PassiveClock) *openCalls {
	return &openCalls{clock: c, byPod: map[types.UID]map[*openCall]struct{}{}, uncertain: map[types.UID]struct{}{}}
}

// setUncertain notes that a call for the pod has failed and may have made something.
func (o *openCalls) setUncertain(uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.uncertain[uid] = struct{}{}
}

// needsList reports whether only a list shows everything made for the pod, because a call has failed
// or has not been answered.
func (o *openCalls) needsList(uid types.UID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, uncertain := o.uncertain[uid]
	return uncertain || len(o.byPod[uid]) > 0
}

// setCertain notes that a list has shown what the pod's calls made, or that the pod is gone.
func (o *openCalls) setCertain(uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.uncertain, uid)
}

// begin notes a call, and cancels it at once if the agent is ending.
func (o *openCalls) begin(uid types.UID, name string, cancel context.CancelCauseFunc) *openCall {
	c := &openCall{name: name, since: o.clock.Now(), cancel: cancel}
	o.mu.Lock()
	defer o.mu.Unlock()
	for old := range o.byPod[uid] {
		if old.outcomeKnown(c.since) { // starts that are cut off again and again must not pile up
			delete(o.byPod[uid], old)
		}
	}
	if o.byPod[uid] == nil {
		o.byPod[uid] = map[*openCall]struct{}{}
	}
	o.byPod[uid][c] = struct{}{}
	if o.closed {
		cancel(context.Canceled)
	}
	return c
}

// end notes how a call ended. The runtime may still complete one that was cut off.
func (o *openCalls) end(uid types.UID, c *openCall, err error, cancelled bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil && cancelled || cri.MayHaveActed(err) {
		c.latestEnd = o.clock.Now().Add(lateCompletion)
		return
	}
	o.drop(uid, c)
}

func (o *openCalls) drop(uid types.UID, c *openCall) {
	delete(o.byPod[uid], c)
	if len(o.byPod[uid]) == 0 {
		delete(o.byPod, uid)
	}
}

// unanswered returns an error that names a call of the pod that has not been answered.
func (o *openCalls) unanswered(uid types.UID) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for c := range o.byPod[uid] {
		if c.latestEnd.IsZero() {
			return &unansweredError{call: c.name, since: c.since}
		}
	}
	return nil
}

// unknownOutcome returns an error that names a call of the pod that may still have an effect. If there
// is none, a reading that begins now shows everything that the pod's calls have done.
func (o *openCalls) unknownOutcome(uid types.UID) error {
	if err := o.unanswered(uid); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.clock.Now()
	for c := range o.byPod[uid] {
		if !c.outcomeKnown(now) {
			return &unansweredError{call: c.name, since: c.since, ended: true}
		}
		o.drop(uid, c)
	}
	return nil
}

// close cancels all calls and waits for their goroutines.
func (o *openCalls) close() {
	o.mu.Lock()
	o.closed = true
	for _, calls := range o.byPod {
		for c := range calls {
			c.cancel(context.Canceled)
		}
	}
	o.mu.Unlock()
	o.going.Wait()
}
