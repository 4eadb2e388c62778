package podsync

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// The reason and message of a pod that ran for too long (spec/syncloop.md W4).
const (
	reasonDeadline  = "DeadlineExceeded"
	messageDeadline = "Pod was active on the node longer than the specified deadline"
)

// deadlineOf returns a pod's start time and how long it may be active; false if it has no deadline, or
// has not started (W3).
func deadlineOf(pod *v1.Pod, s *v1.PodStatus) (time.Time, time.Duration, bool) {
	start := s.StartTime
	if start == nil {
		start = pod.Status.StartTime
	}
	if pod.Spec.ActiveDeadlineSeconds == nil || start == nil {
		return time.Time{}, 0, false
	}
	return start.Time, timing.Seconds(*pod.Spec.ActiveDeadlineSeconds), true
}

// expire fails a pod whose deadline has passed, and schedules a wake-up at a deadline that is
// still to come (W5). It reports whether the deadline has passed, and returns what amends the
// pod's statuses in that case.
func (s *Syncer) expire(pod *v1.Pod, view *runtime.PodStatus, published *v1.PodStatus) (podworkers.PodStatusFunc, bool) {
	start, limit, has := deadlineOf(pod, published)
	if !has {
		s.deadlines.forget(pod.UID)
		return nil, false
	}
	at := s.deadlines.began(pod.UID, start, s.o.Clock.Now()).Add(limit)
	if s.deadlines.clock.Now().Before(at) {
		s.deadlines.set(pod.UID, at)
		return nil, false
	}
	s.deadlines.forget(pod.UID)
	amend := func(st *v1.PodStatus) {
		st.Phase, st.Reason, st.Message = v1.PodFailed, reasonDeadline, messageDeadline
	}
	_, _ = s.publish(pod, view, false, amend)
	// Its phase is terminal from now on, so this event is recorded once in its life.
	s.o.Events.Eventf(pod, v1.EventTypeNormal, reasonDeadline, messageDeadline)
	return amend, true
}

// errDeadline is the cause of the end of a step's context.
var errDeadline = errors.New("the pod's deadline has passed")

// steady is a clock that shows the time that passes, however the wall clock is set.
type steady struct {
	clock.WithTicker
	epoch time.Time
}

// Now returns what the wall clock would show if it had not been set since the epoch.
func (c steady) Now() time.Time { return c.epoch.Add(c.Since(c.epoch)) }

// beginning is when a pod began, by the steady clock; start is its start time.
type beginning struct{ start, at time.Time }

// deadlines wakes pods at their deadlines, and cuts short a step under way, which may be
// waiting for a call that never ends.
type deadlines struct {
	// clock is that of all times below. A machine without a battery sets its wall clock after it has
	// started pods, which must not end them.
	clock steady
	wake  func(uid types.UID)
	// changed is readable after the earliest time may have changed.
	changed chan struct{}

	mu     sync.Mutex
	begins map[types.UID]beginning
	at     map[types.UID]time.Time
	// steps cancel the steps that are under way for pods with a deadline.
	steps map[types.UID]context.CancelCauseFunc
}

func newDeadlines(c clock.WithTicker, wake func(uid types.UID)) *deadlines {
	return &deadlines{
		clock: steady{c, c.Now()}, wake: wake, changed: make(chan struct{}, 1),
		begins: map[types.UID]beginning{}, at: map[types.UID]time.Time{}, steps: map[types.UID]context.CancelCauseFunc{},
	}
}

// began returns when a pod with this start time began. That is decided when the start time is first
// seen, by the wall clock, which shows now. If the start is in the future, the clock shows a wrong time: the
// pod begins now.
func (d *deadlines) began(uid types.UID, start, now time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	b, known := d.begins[uid]
	if !known || !b.start.Equal(start) {
		b = beginning{start, d.clock.Now().Add(-max(0, now.Sub(start)))}
		d.begins[uid] = b
	}
	return b.at
}

// begin returns a context for a step of the pod, which ends at the pod's deadline (W5).
// The caller calls end after the step.
func (d *deadlines) begin(ctx context.Context, pod *v1.Pod) (_ context.Context, end func()) {
	if pod.Spec.ActiveDeadlineSeconds == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	d.mu.Lock()
	d.steps[pod.UID] = cancel
	d.mu.Unlock()
	return ctx, func() {
		d.mu.Lock()
		delete(d.steps, pod.UID)
		d.mu.Unlock()
		cancel(nil)
	}
}

// cut cancels the step that is under way for the pod, if any.
func (d *deadlines) cut(uid types.UID) {
	d.mu.Lock()
	cancel := d.steps[uid]
	d.mu.Unlock()
	if cancel != nil {
		cancel(errDeadline)
	}
}

// set schedules the pod's wake-up, in place of the one set before.
func (d *deadlines) set(uid types.UID, at time.Time) {
	d.mu.Lock()
	known := d.at[uid].Equal(at)
	d.at[uid] = at
	d.mu.Unlock()
	if known {
		return
	}
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// forget drops the pod's wake-up, and when it began.
func (d *deadlines) forget(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.begins, uid)
	delete(d.at, uid)
}

// take removes and returns the pods that are due. next is when the next one is due, zero if
// there is none.
func (d *deadlines) take(now time.Time) (due []types.UID, next time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for uid, at := range d.at {
		switch {
		case !now.Before(at):
			due = append(due, uid)
			delete(d.at, uid)
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	return due, next
}

// Run wakes pods at their deadlines ([Options.Wake]) and cuts short their steps under way,
// until ctx ends. It returns nil.
func (s *Syncer) Run(ctx context.Context) error { return s.deadlines.run(ctx) }

// run wakes pods until ctx ends.
func (d *deadlines) run(ctx context.Context) error {
	for {
		due, next := d.take(d.clock.Now())
		for _, uid := range due {
			d.cut(uid)
			d.wake(uid)
		}
		timer, stop := timing.Alarm(d.clock, next)
		select {
		case <-ctx.Done():
			stop()
			return nil
		case <-d.changed:
		case <-timer:
		}
		stop()
	}
}
