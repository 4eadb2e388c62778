package podsource

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/timing"
)

// errEndedEarly says that a watch ended without an event, or a streamed list before its end.
var errEndedEarly = errors.New("the API server ended the watch early")

// overheard is a watch whose events are checked. If it is silent for too long, ends without an
// event, or reports anything but pods, it ends with an error, after which the reflector lists
// again.
type overheard struct {
	inner  watch.Interface
	health *health
	clock  clock.WithTicker
	limit  time.Duration
	// listing says that the watch begins with a list that has not ended. The reflector repeats some
	// failed lists forever; after an internal error it requests a plain list.
	listing bool

	events chan watch.Event
	stop   chan struct{}
	once   sync.Once
}

// Stop implements [watch.Interface].
func (o *overheard) Stop() { o.once.Do(func() { close(o.stop) }) }

// ResultChan implements [watch.Interface].
func (o *overheard) ResultChan() <-chan watch.Event { return o.events }

// run passes on the events until the watch or ctx ends, or Stop is called.
func (o *overheard) run(ctx context.Context) {
	defer close(o.events)
	defer o.inner.Stop()
	timer := o.clock.NewTimer(o.limit)
	defer timer.Stop()
	for said := false; ; said = true {
		var event watch.Event
		var open bool
		select {
		case event, open = <-o.inner.ResultChan():
			switch {
			case open:
				event = o.judged(event)
			case said && !o.listing || o.ended(ctx):
				return
			default:
				event = o.failed(errEndedEarly)
			}
			timing.Restart(timer, o.limit)
		case <-timer.C():
			event = o.failed(apierrors.NewResourceExpired(fmt.Sprintf("nothing was heard of the pods for %s; they are listed again", o.limit)))
		case <-o.stop:
			return
		case <-ctx.Done():
			return
		}
		select {
		case o.events <- event:
		case <-o.stop:
			return
		case <-ctx.Done():
			return
		}
		if !open {
			return
		}
	}
}

// ended reports whether the watch no longer has a listener.
func (o *overheard) ended(ctx context.Context) bool {
	select {
	case <-o.stop:
		return true
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

// judged returns the event, or an error event in its place.
func (o *overheard) judged(event watch.Event) watch.Event {
	switch event.Type {
	case watch.Error:
		return o.failed(apierrors.FromObject(event.Object))
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
	default:
		return o.failed(fmt.Errorf("the API server sent an event of the unknown type %q", event.Type))
	}
	pod, ok := event.Object.(*v1.Pod)
	if !ok {
		return o.failed(fmt.Errorf("the API server sent a %T instead of a pod", event.Object))
	}
	if event.Type == watch.Bookmark && pod.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
		o.listing = false
	}
	return event
}

// failed records an error and returns it as an event.
func (o *overheard) failed(err error) watch.Event {
	o.health.refused(err)
	var known apierrors.APIStatus
	if errors.As(err, &known) && !o.listing {
		status := known.Status()
		return watch.Event{Type: watch.Error, Object: &status}
	}
	return watch.Event{Type: watch.Error, Object: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: err.Error(),
	}}
}
