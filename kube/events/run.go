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
	"github.com/podwright/podwright/kube/internal/spread"
)

const (
	// callTimeout bounds one call.
	callTimeout = 10 * time.Second
	// retryMin and retryMax bound the pause after a call that failed.
	retryMin = time.Second
	retryMax = 30 * time.Second
)

// Run sends events until ctx ends, then the queued ones for at most Options.FlushTimeout, and
// returns nil. Call it once.
func (r *Recorder) Run(ctx context.Context) error {
	unsent := r.sendAll(ctx, true)
	if r.options.FlushTimeout < 0 {
		return nil
	}
	flush, cancel := timing.WithTimeout(context.WithoutCancel(ctx), r.options.Clock, r.options.FlushTimeout)
	defer cancel()
	if unsent == nil || r.send(flush, unsent) {
		r.sendAll(flush, false)
	}
	return nil
}

// sendAll sends queued events and, if wait is set, new ones as they come, until ctx ends. It
// returns an event that it could not send before that.
func (r *Recorder) sendAll(ctx context.Context, wait bool) (unsent *record.EventCorrelateResult) {
	for ctx.Err() == nil {
		event, dropped := r.queue.pop()
		if dropped > 0 {
			r.options.Logger.Info("Events dropped, the API server does not take them", "dropped", dropped)
		}
		switch {
		case event != nil:
			if result := r.correlate(event); result != nil && !r.send(ctx, result) {
				return result
			}
		case !wait:
			return nil
		default:
			select {
			case <-r.queue.more:
			case <-ctx.Done():
			}
		}
	}
	return nil
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

// send writes one event, however long that takes. It returns false if ctx ends first.
func (r *Recorder) send(ctx context.Context, result *record.EventCorrelateResult) bool {
	log := r.options.Logger.WithValues("object", objectOf(result.Event), "reason", result.Event.Reason)
	for failures := 1; ; failures++ {
		written, err := r.write(ctx, result)
		if err == nil {
			r.correlator.UpdateState(written)
			return true
		}
		pause, again := retry(err, failures)
		switch {
		case !again:
			log.V(1).Info("Event refused", "error", err.Error())
			return true
		case failures == 1:
			log.Error(err, "Event not sent, will be retried")
		}
		if timing.Sleep(ctx, r.options.Clock, spread.Out(pause, r.options.Node, r.options.Clock.Now())) != nil {
			return false
		}
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
		if !apierrors.IsNotFound(err) {
			return written, err
		}
		// The event has expired.
	}
	event = event.DeepCopy()
	event.ResourceVersion = ""
	return client.Create(ctx, event, metav1.CreateOptions{})
}

// retry decides whether a rejected event is sent again, and when: a server that is unavailable or
// busy may accept it later, a refusal is final.
func retry(err error, failures int) (pause time.Duration, again bool) {
	var answered apierrors.APIStatus
	if errors.As(err, &answered) && !transient(err) {
		return 0, false
	}
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return max(backoff.Delay(retryMin, retryMax, failures), min(timing.Seconds(int64(seconds)), 10*time.Minute)), true
}

// transient reports whether a retry may get a different answer. Unauthorized counts, because the
// credentials of a node are renewed.
func transient(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) || apierrors.IsUnauthorized(err)
}
