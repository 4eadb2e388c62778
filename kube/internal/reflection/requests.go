package reflection

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/kube/internal/answers"
	"github.com/podwright/podwright/kube/internal/spread"
)

// requests makes the requests of one reflector, one after the other. It reports failures, abandons
// requests without an answer, and spaces out the watches, because the reflector repeats some at
// once, however short they were.
type requests struct {
	Reflection
	// listing is held during a list, for whose end the reflector itself does not wait.
	listing sync.Mutex

	// open is the latest watch that was answered; began is when it was requested, and pause how
	// long after began the next one starts.
	open  watch.Interface
	began time.Time
	pause time.Duration
	// notBefore is when the next request may start, if a failed one was told to wait.
	notBefore time.Time
}

func (r *requests) list(ctx context.Context, o metav1.ListOptions) (apiruntime.Object, error) {
	r.listing.Lock()
	defer r.listing.Unlock()
	if err := r.until(ctx, r.notBefore); err != nil {
		return nil, err
	}
	limited, cancel := timing.WithTimeout(ctx, r.Clock, answerLimit)
	defer cancel()
	list, err := r.List(limited, o)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = unanswered(err)
	}
	r.note(ctx, err)
	return list, err
}

func (r *requests) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	r.stopWatch()
	if err := r.space(ctx); err != nil {
		return nil, err
	}
	w, err := r.answered(ctx, o)
	r.note(ctx, err)
	if err != nil {
		return nil, err
	}
	r.open = w
	return w, nil
}

// space waits until the next watch may begin.
func (r *requests) space(ctx context.Context) error {
	next := r.notBefore
	switch {
	case r.began.IsZero():
	case r.Clock.Since(r.began) >= steadyAfter:
		r.pause = 0
	default:
		r.pause = backoff.Next(pauseMin, pauseMax, r.pause)
		if spaced := r.began.Add(spread.Out(r.pause, r.Name, r.Clock.Now())); spaced.After(next) {
			next = spaced
		}
	}
	if err := r.until(ctx, next); err != nil {
		return err
	}
	r.began = r.Clock.Now()
	return nil
}

// until waits for a moment.
func (r *requests) until(ctx context.Context, moment time.Time) error {
	if wait := moment.Sub(r.Clock.Now()); wait > 0 {
		return timing.Sleep(ctx, r.Clock, wait)
	}
	return ctx.Err()
}

// answered opens a watch. Its context lasts as long as the watch does.
func (r *requests) answered(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	lasting, cancel := context.WithCancel(ctx)
	limited, done := timing.WithTimeout(ctx, r.Clock, answerLimit)
	defer done()
	unlimited := context.AfterFunc(limited, cancel)
	w, err := r.Watch(lasting, o)
	inTime := unlimited() || ctx.Err() != nil
	switch {
	case err != nil && !inTime:
		err = unanswered(err)
	case err == nil && !inTime:
		w.Stop()
		err = unanswered(context.DeadlineExceeded)
	case err == nil:
		return &answered{Interface: w, cancel: cancel}, nil
	}
	cancel()
	return nil, err
}

// stopWatch ends the last watch: the reflector leaves a watch open if its store refuses the list.
func (r *requests) stopWatch() {
	if r.open != nil {
		r.open.Stop()
		r.open = nil
	}
}

// end returns when no request is in flight. Their contexts have ended.
func (r *requests) end() {
	r.stopWatch()
	r.listing.Lock()
	defer r.listing.Unlock()
}

// note reports a failure. If the API server asked for a pause, the next request waits: client-go
// itself waits only while it repeats the same request.
func (r *requests) note(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	if pause := answers.Wait(err, answerLimit); pause > 0 {
		now := r.Clock.Now()
		r.notBefore = now.Add(spread.Out(pause, r.Name, now))
	}
	if r.Failed != nil {
		r.Failed(err)
	}
}

func unanswered(err error) error {
	return fmt.Errorf("the API server gave no answer within %s: %w", answerLimit, err)
}

// answered is a watch with the context of its request.
type answered struct {
	watch.Interface
	cancel context.CancelFunc
}

// Stop implements [watch.Interface].
func (a *answered) Stop() {
	a.Interface.Stop()
	a.cancel()
}
