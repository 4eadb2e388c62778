package podsource

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
)

// overheard is a watch that ends with an error when it has been silent for too long. The
// error is the one of a revision that is too old, after which a reflector lists again.
type overheard struct {
	inner  watch.Interface
	events chan watch.Event
	stop   chan struct{}
	once   sync.Once
}

func newOverheard(inner watch.Interface) *overheard {
	return &overheard{inner: inner, events: make(chan watch.Event), stop: make(chan struct{})}
}

// Stop implements [watch.Interface].
func (o *overheard) Stop() { o.once.Do(func() { close(o.stop) }) }

// ResultChan implements [watch.Interface].
func (o *overheard) ResultChan() <-chan watch.Event { return o.events }

// run passes on the events until the watch or ctx ends, or Stop is called.
func (o *overheard) run(ctx context.Context, c clock.WithTicker, limit time.Duration, h *health) {
	defer close(o.events)
	defer o.inner.Stop()
	timer := c.NewTimer(limit)
	defer timer.Stop()
	for {
		var event watch.Event
		var open bool
		select {
		case event, open = <-o.inner.ResultChan():
			if !open {
				return
			}
			if !timer.Stop() {
				select {
				case <-timer.C():
				default:
				}
			}
			timer.Reset(limit)
		case <-timer.C():
			silent := fmt.Errorf("the watch has said nothing for %s; the pods are listed again", limit)
			h.refused(silent)
			event = watch.Event{Type: watch.Error, Object: &metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: silent.Error(),
			}}
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
	}
}
