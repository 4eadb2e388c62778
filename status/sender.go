package status

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/timing"
)

// sender brings changes to one sink. One goroutine starts the sends, and each send in flight has
// its own; an idle pod has none. All fields that change are guarded by Manager.mu.
//
//	enqueue ─► ready (FIFO) ─► in flight ─► acknowledged
//	             ▲    due         │ failed, gone, held back
//	             └── delayed ◄────┘
//	                 (heap by time)
type sender struct {
	manager *Manager
	sink    StatusSink
	reader  PodReader  // nil if the sink is not one
	deleter PodDeleter // nil if the sink is not one
	name    string
	// persistent: after a restart, the sink still has what it had before.
	persistent bool
	// wake has one slot: something is ready or a send ended.
	wake chan struct{}

	pods    map[types.UID]*delivery
	ready   []*delivery
	delayed delayQueue
	flights flights

	// failing is the number of deliveries whose last round failed, failingSince is when the first
	// of them failed, lastErr is the latest error.
	failing      int
	failingSince time.Time
	lastErr      error
}

// delivery is what a sender knows of one pod.
type delivery struct {
	entry *entry
	// acked is the newest version the sink has; stored is that status as it was merged, nil before
	// the first.
	acked  uint64
	stored *v1.PodStatus
	// had is acked, but for a recheck.
	had uint64
	// told: the sink knows that the pod is finished.
	told bool
	// target is the UID that acked and stored belong to: the pod's or its mirror's.
	target types.UID
	// since is when the first change that the sink does not have was accepted.
	since time.Time

	state deliveryState
	// flight is the round in flight.
	flight *flight
	// again asks for another round after the one in flight.
	again bool
	// due is when a delayed delivery is ready; at is its place in the heap.
	due time.Time
	at  int
	// failures counts failed rounds in a row.
	failures int
	// outside is set while the next round waits for something outside rather than for time to pass:
	// the sink does not know the pod, the mirror is missing, or the phase is held back.
	outside bool
	// held is set while a terminal status waits for the journal.
	held bool
	// closed is set once the sink has deleted the pod.
	closed bool
	// forgotten is set if the manager dropped the entry and the sink is not to be told.
	forgotten bool
}

type deliveryState uint8

const (
	idle deliveryState = iota
	queued
	delayed
	sending
)

func newSender(m *Manager, sink StatusSink, name string) *sender {
	s := &sender{manager: m, sink: sink, name: name, wake: make(chan struct{}, 1), pods: map[types.UID]*delivery{}}
	s.reader, _ = sink.(PodReader)
	s.deleter, _ = sink.(PodDeleter)
	if p, ok := sink.(Persistent); ok {
		s.persistent = p.Persistent()
	} else {
		s.persistent = s.reader != nil
	}
	return s
}

// enqueue asks for a round for a pod whose entry has a new version. The manager's lock is held, as
// for all methods up to run.
func (s *sender) enqueue(e *entry) {
	d := s.pods[e.uid]
	if d == nil {
		d = &delivery{entry: e}
		s.pods[e.uid] = d
	} else if d.entry != e {
		// A new life of the same UID began while the last round of the old one was ready or in
		// flight: what is known of the old life no longer counts.
		s.count(d, nil)
		if d.state == delayed {
			s.unfile(d)
		}
		*d = delivery{entry: e, state: d.state, flight: d.flight}
	}
	if d.since.IsZero() {
		d.since = e.changed
	}
	s.push(d)
}

// recheck asks for a round although there is no new version, because something outside changed.
func (s *sender) recheck(e *entry) {
	d := s.pods[e.uid]
	if d == nil || d.entry != e {
		s.enqueue(e)
		return
	}
	d.acked = 0
	if d.since.IsZero() {
		d.since = s.manager.options.Clock.Now()
	}
	s.push(d)
}

const (
	// sandboxPatience is how long a new sandbox of a pod waits for more news before an API is told.
	sandboxPatience = 10 * time.Second
	// minBackoff and maxBackoff bound the delay after failed sends, per pod and sink (8.7).
	minBackoff = time.Second
	maxBackoff = 30 * time.Second
	// resyncPeriod is how soon a send that waits for something outside is tried again: the sink does not know the
	// pod, the mirror pod is missing, or a terminal phase was held back (8.1).
	resyncPeriod = 10 * time.Second
)

// push makes a delivery ready unless it backs off, is in flight, or has only a status of an earlier
// process.
func (s *sender) push(d *delivery) {
	switch {
	case d.closed, s.waits(d.entry):
		return
	case d.state == sending:
		d.again = true
		return
	case d.state == delayed && !d.outside, d.state == queued:
		return
	case d.state == delayed:
		s.unfile(d)
	}
	onlyCalm := d.had+1 >= d.entry.version // there is no other news
	if wait := d.entry.calm.Sub(s.manager.options.Clock.Now()); wait > 0 && s.reader != nil && onlyCalm {
		d.outside = true // the next change is sent at once
		if d.since.Equal(d.entry.changed) {
			d.since = time.Time{} // waiting on purpose is no delay of the sink
		}
		s.delay(d, min(wait, sandboxPatience))
		s.notify()
		return
	}
	d.state = queued
	s.ready = append(s.ready, d)
	s.notify()
}

// pending counts the changes waiting for this sink that it could take. A change that waits for the
// journal counts too: the sink gets it as soon as it is on disk.
func (s *sender) pending() int {
	n := 0
	for _, d := range s.pods {
		unknown := d.outside && !d.held && d.state == delayed // the sink does not know the pod
		if d.state == sending || !d.closed && !unknown && !s.waits(d.entry) && d.acked < d.entry.version {
			n++
		}
	}
	return n
}

// next returns a delivery to send now, or how long to wait for one; a negative wait means until
// something happens.
func (s *sender) next(now time.Time, limit int) (d *delivery, wait time.Duration) {
	for len(s.delayed) > 0 && !s.delayed[0].due.After(now) {
		d := heap.Pop(&s.delayed).(*delivery)
		d.state = queued
		if d.since.IsZero() {
			d.since = now
		}
		s.ready = append(s.ready, d)
	}
	free, wait := s.flights.place(now, limit)
	if len(s.ready) == 0 {
		wait = -1 // nothing waits for a place
	} else if free {
		d := s.ready[0]
		s.ready[0] = nil
		s.ready = s.ready[1:]
		if len(s.ready) == 0 {
			s.ready = nil // release the underlying array
		}
		d.state, d.again, d.outside, d.held, d.flight = sending, false, false, false, s.flights.begin(now)
		return d, 0
	}
	if len(s.delayed) > 0 {
		if due := s.delayed[0].due.Sub(now); wait < 0 || due < wait {
			wait = due
		}
	}
	return nil, wait
}

// notify wakes the sender's goroutine.
func (s *sender) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run starts sends until ctx ends, then waits for those in flight.
func (s *sender) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	m := s.manager
	for ctx.Err() == nil {
		m.mu.Lock()
		now := m.options.Clock.Now()
		d, wait := s.next(now, m.options.MaxInFlight)
		if d == nil {
			m.mu.Unlock()
			s.sleep(ctx, now, wait)
			continue
		}
		j := s.job(d)
		m.mu.Unlock()
		wg.Go(func() { s.round(ctx, d, j) })
	}
}

// sleep waits for work, which is due after the wait, counted from now, if that is not negative.
func (s *sender) sleep(ctx context.Context, now time.Time, wait time.Duration) {
	var at time.Time
	if wait >= 0 {
		at = now.Add(wait)
	}
	due, stop := timing.Alarm(s.manager.options.Clock, at)
	defer stop()
	select {
	case <-s.wake:
	case <-due:
	case <-ctx.Done():
	}
}

// job is a copy of what one round needs, taken under the lock.
type job struct {
	entry    *entry
	pod      *v1.Pod
	status   *v1.PodStatus
	version  uint64
	finished bool
	acked    uint64
	stored   *v1.PodStatus
	told     bool
	target   types.UID
	since    time.Time
	ended    time.Time
	changed  time.Time
	restored bool
	// endedBefore: the sink may have got the end before a restart.
	endedBefore bool
	failures    int
}

func (s *sender) job(d *delivery) job {
	e := d.entry
	return job{
		entry: e, pod: e.pod, status: e.status, version: e.version, finished: e.finished,
		acked: d.acked, stored: d.stored, told: d.told, target: d.target, since: d.since, failures: d.failures,
		ended: e.ended, changed: e.changed, restored: e.restored, endedBefore: e.endedBefore,
	}
}

// outcome is the result of one round.
type outcome struct {
	// result is the label for the metric; empty if nothing had to be done.
	result string
	// stored is what the sink has now, if it acknowledged; target is the UID it belongs to.
	stored *v1.PodStatus
	target types.UID
	// acked: the sink has the job's version.
	acked bool
	// outside: look again after resyncPeriod or, if hold is not 0, after hold, because the round
	// waits for the journal.
	outside bool
	hold    time.Duration
	// deleted: the sink has deleted the pod.
	deleted bool
	// err makes the round a failure.
	err error
}

// round is one send with its bookkeeping.
func (s *sender) round(ctx context.Context, d *delivery, j job) {
	m := s.manager
	sendCtx, cancel := context.WithCancelCause(ctx)
	limit := m.options.Clock.AfterFunc(m.options.SendTimeout, func() { cancel(errSendTimeout) })
	o := s.attempt(sendCtx, j)
	limit.Stop()
	cancel(nil)
	if o.result != "" {
		m.metrics.sent(ctx, s.name, o.result)
	}
	if o.err != nil && ctx.Err() == nil {
		s.logFailure(j, o.err)
	}
	if o.acked && o.result == Stored.String() {
		m.metrics.acknowledged(ctx, s.name, m.options.Clock.Since(j.since))
	}

	m.mu.Lock()
	s.flights.end(d.flight)
	gaveUp := s.finish(d, j, o)
	s.notify()
	m.progressed()
	m.mu.Unlock() // before anything is logged: a logger may block
	if gaveUp {
		m.options.Logger.Error(o.err, "Cannot tell the sink that a pod was forgotten", "sink", s.name, "uid", j.entry.uid)
	}
}

// logFailure logs the first failure in a row as an error and the others at V(1), because a full
// disk fails for every pod twice a minute.
func (s *sender) logFailure(j job, err error) {
	log := s.manager.options.Logger.WithValues("sink", s.name, "uid", j.entry.uid,
		"namespace", j.pod.Namespace, "name", j.pod.Name, "version", j.version)
	if j.failures == 0 {
		log.Error(err, "status not sent, will be retried")
	} else {
		log.V(1).Info("status still not sent, will be retried", "failures", j.failures+1, "error", err.Error())
	}
}

// attempt calls the sink and turns a panic into an error.
func (s *sender) attempt(ctx context.Context, j job) (o outcome) {
	defer func() {
		if p := recover(); p != nil {
			o = outcome{result: "error", err: fmt.Errorf("sink %s panicked: %v\n%s", s.name, p, debug.Stack())}
		}
	}()
	o = s.send(ctx, j)
	if o.err != nil {
		o.result = "error"
		if cause := context.Cause(ctx); cause != nil && !errors.Is(o.err, cause) {
			o.err = fmt.Errorf("%w: %w", cause, o.err)
		}
	}
	return o
}

// finish records the outcome of a delivery and files it again; gaveUp: it no longer tries to tell
// the sink that the pod was forgotten. The manager's lock is held.
func (s *sender) finish(d *delivery, j job, o outcome) (gaveUp bool) {
	d.state = idle
	if d.entry != j.entry { // a new life began meanwhile
		s.push(d)
		return false
	}
	if o.stored != nil {
		d.stored, d.told, d.target = o.stored, j.finished, o.target
	}
	if o.acked {
		d.acked, d.had, d.since = j.version, j.version, time.Time{}
		if journal := s.manager.options.Journal; journal != nil && j.version != j.acked && !d.forgotten && j.entry.forgotten.IsZero() {
			journal.Acknowledged(j.entry.uid, s.name, o.target, j.version)
		}
		if d.acked < d.entry.version {
			d.since = d.entry.changed
		}
	}
	s.count(d, o.err)
	d.closed = d.closed || o.deleted
	switch gone := d.entry.forgotten; {
	case d.forgotten, !gone.IsZero() && o.acked:
		s.drop(d)
		return false
	case !gone.IsZero() && s.manager.options.Clock.Since(gone) > forgottenAge:
		s.drop(d)
		return true
	}
	options := &s.manager.options
	switch {
	case d.closed:
	case o.err != nil:
		s.delay(d, retryDelay(minBackoff, maxBackoff, d.failures, options.Jitter()))
	case d.again || d.acked < d.entry.version && !o.outside:
		s.push(d)
	case o.hold > 0:
		// The journal may have written it since the check.
		if options.Journal.Durable(j.entry.uid, j.finished) {
			s.push(d)
			break
		}
		d.outside, d.held = true, true
		s.delay(d, o.hold)
	case o.outside:
		d.outside = true
		s.delay(d, resyncPeriod)
	}
	if d.entry.finished && d.state == idle {
		s.manager.dropDeleted(d.entry)
	}
	return false
}

// count keeps the number of consecutive failures of a delivery, and the sender's number of failing
// deliveries.
func (s *sender) count(d *delivery, err error) {
	switch {
	case err != nil && d.failures == 0:
		if s.failing == 0 {
			s.failingSince = s.manager.options.Clock.Now()
		}
		s.failing++
	case err == nil && d.failures > 0:
		s.failing--
	}
	if err == nil {
		d.failures = 0
		return
	}
	d.failures++
	s.lastErr = err
}

// drop forgets a delivery.
func (s *sender) drop(d *delivery) {
	s.count(d, nil)
	delete(s.pods, d.entry.uid)
}

// unfile removes a delivery from the queue of delayed ones.
func (s *sender) unfile(d *delivery) {
	heap.Remove(&s.delayed, d.at)
	d.state = idle
}

// delay makes a delivery ready after a while.
func (s *sender) delay(d *delivery, wait time.Duration) {
	d.state, d.due = delayed, s.manager.options.Clock.Now().Add(wait)
	heap.Push(&s.delayed, d)
}

// dropDeleted drops the entry of a pod that some sink has deleted and all others are done with
// (8.6). The lock is held.
func (m *Manager) dropDeleted(e *entry) {
	deleted := false
	for _, s := range m.senders {
		d := s.pods[e.uid]
		switch {
		case d == nil || d.entry != e:
		case d.closed:
			deleted = true
		case d.state != idle || d.acked < e.version:
			return
		}
	}
	if deleted && m.pods[e.uid] == e {
		m.forget(e.uid)
	}
}

// retryDelay returns the delay after so many failures in a row: it doubles between the bounds, and
// up to a fifth is added so that pods that failed together spread out (8.7).
func retryDelay(shortest, longest time.Duration, failures int, jitter float64) time.Duration {
	d := backoff.Delay(shortest, longest, failures)
	return d + time.Duration(jitter*float64(d)/5)
}

// now returns the current time with the precision that statuses carry.
func (s *sender) now() metav1.Time {
	return metav1.Time{Time: wholeSeconds(s.manager.options.Clock.Now())}
}
