package events

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/kube/internal/answers"
)

const (
	// callTimeout bounds one call. It is longer than an API server takes to answer (60 s), which may have to wait
	// for several admission webhooks: their failure is an answer about the event.
	callTimeout = 65 * time.Second
	// retryMin and retryMax bound the pause after a call that failed.
	retryMin = time.Second
	retryMax = 30 * time.Second
	// flushTimeout is how long Run continues after its context ends, to send queued events.
	flushTimeout = 5 * time.Second
)

// Run sends events until ctx ends, then the queued ones for at most 5 s, and
// returns nil. Call it once.
func (r *Recorder) Run(ctx context.Context) error {
	r.sendAll(ctx, true)
	flush, cancel := timing.WithTimeout(context.WithoutCancel(ctx), r.options.Clock, flushTimeout)
	defer cancel()
	r.held.release(r.options.Clock.Now())
	r.sendAll(flush, false)
	return nil
}

// sendAll sends queued events and, if wait is set, new ones as they come, until ctx ends.
func (r *Recorder) sendAll(ctx context.Context, wait bool) {
	for ctx.Err() == nil {
		now := r.options.Clock.Now()
		e, dropped, more := r.next(now)
		if dropped > 0 {
			r.options.Logger.Info("Events dropped, the API server does not take them", "dropped", dropped)
		}
		switch {
		case e != nil:
			r.send(ctx, e)
		case !more && !r.await(ctx, now, wait):
			return
		}
	}
}

// next returns what is sent now, nil for nothing. more means that there may be something else: the event whose
// turn it was is not sent.
func (r *Recorder) next(now time.Time) (e *outgoing, dropped int, more bool) {
	e, dropped = r.queue.pop(func(namespace string) (time.Time, bool) { return r.held.turn(namespace, now) })
	if e == nil {
		r.held.forget(now)
		return nil, dropped, false
	}
	if e.result == nil {
		e.result = r.correlate(e.event)
	}
	if e.result == nil {
		return nil, dropped, true
	}
	return e, dropped, false
}

// await returns when there may be something to send that there was not at the given time, or ctx ends. If
// new events do not count and no namespace waits, it returns false.
func (r *Recorder) await(ctx context.Context, now time.Time, fresh bool) bool {
	until, waits := r.held.earliest(now)
	if !waits && !fresh {
		return false
	}
	again, stop := timing.Alarm(r.options.Clock, until)
	defer stop()
	select {
	case <-r.queue.more:
	case <-again:
	case <-ctx.Done():
	}
	return true
}

// correlate merges similar events into one. It returns nil if there is nothing to send.
func (r *Recorder) correlate(event *v1.Event) *record.EventCorrelateResult {
	result, err := r.correlator.EventCorrelate(event)
	switch {
	case err != nil:
		r.options.Logger.Error(err, "Event is sent apart from those like it", "object", objectOf(event), "reason", event.Reason)
		return &record.EventCorrelateResult{Event: event}
	case result.Skip:
		return nil
	}
	return result
}

// send writes one event. If it is not stored, maybe because of its namespace or itself, it goes back to the queue, and
// others go first.
func (r *Recorder) send(ctx context.Context, e *outgoing) {
	event := e.result.Event
	written, err := r.write(ctx, e.result)
	if err == nil {
		r.correlator.UpdateState(written)
		r.held.stored(event.Namespace)
		r.away = 0
		return
	}
	log := r.options.Logger.WithValues("object", objectOf(event), "reason", event.Reason)
	why := judge(err)
	switch {
	case ctx.Err() != nil: // the call was cut off
		r.queue.putBack(e)
		return
	case why == refused:
		log.V(1).Info("Event refused", "error", err.Error())
		delete(r.held, event.Namespace)
		r.away = 0
		return
	case why == failed && e.tries == 0, why == away && r.away == 0: // once in an outage, not once per event
		log.Error(err, "Event not sent, will be retried")
	}
	if pause := r.hold(e, err, why); pause > 0 {
		_ = timing.Sleep(ctx, r.options.Clock, pause) // the event is in the queue, whatever ends first
	}
}

// write creates an event, or increases the count of an existing one.
func (r *Recorder) write(ctx context.Context, result *record.EventCorrelateResult) (*v1.Event, error) {
	ctx, cancel := timing.WithTimeout(ctx, r.options.Clock, callTimeout)
	defer cancel()
	event := result.Event
	client := r.client.Events(event.Namespace)
	if event.Count > 1 && len(result.Patch) > 0 {
		written, err := client.Patch(ctx, event.Name, types.StrategicMergePatchType, result.Patch, metav1.PatchOptions{})
		if !answers.NotFound(err) {
			return written, err
		}
		// The event has expired.
	}
	event = event.DeepCopy()
	event.ResourceVersion = ""
	return client.Create(ctx, event, metav1.CreateOptions{})
}

// pauseAfter is the pause after so many failures.
func pauseAfter(err error, failures int) time.Duration {
	return max(backoff.Delay(retryMin, retryMax, failures), answers.Wait(err, 10*time.Minute))
}

// judgment is what an error of the server says about an event.
type judgment int

const (
	// away: nothing; the server is away or busy, or does not know the node, whose credentials are renewed. It may be so for
	// one namespace only: its limit of events is reached, or its webhook hangs until a load balancer cuts the connection.
	away judgment = iota
	// failed: the server could not store it, which may pass, and may concern only this event or its namespace.
	failed
	// refused: it will not be stored.
	refused
)

func judge(err error) judgment {
	var answered apierrors.APIStatus
	switch {
	case !errors.As(err, &answered) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsUnauthorized(err):
		return away
	case answers.Page(err) && answered.Status().Code >= 500: // a proxy whose servers are away
		return away
	case answers.Page(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsInternalError(err):
		return failed
	}
	return refused
}
