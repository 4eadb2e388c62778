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
)

// sender brings changes to one sink. One goroutine hands out the sends, each
// send in flight has its own, an idle pod has none. All fields but the constant
// ones are guarded by Manager.mu.
//
//	enqueue ─► ready (FIFO) ─► in flight ─► acknowledged
//	             ▲    due         │ failed, gone, held back
//	             └── delayed ◄────┘
//	                 (heap by time)
type sender struct {
	manager *Manager
	sink    StatusSink
	reader  PodReader  // nil if the sink cannot
	deleter PodDeleter // nil if the sink cannot
	name    string
	// persistent: the sink has after a restart what it had before.
	persistent bool
	// wake has one slot: something is ready or a send ended.
	wake chan struct{}

	pods    map[types.UID]*delivery
	ready   []*delivery
	delayed delayQueue
	// inFlight sends, of which unanswered ones have lost their place.
	inFlight, unanswered int

	// failing is the number of deliveries whose last round failed, failingSince
	// when the first of them did, lastErr what the latest said.
	failing      int
	failingSince time.Time
	lastErr      error
}

// delivery is what a sender knows of one pod.
type delivery struct {
	entry *entry
	// acked is the newest version the sink has, and stored that status as it was
	// merged; nil before the first.
	acked  uint64
	stored *v1.PodStatus
	// told: the sink knows that the pod is finished.
	told bool
	// target is the UID acked and stored belong to: the pod's or its mirror's.
	target types.UID
	// since is when the first change was accepted that the sink does not have.
	since time.Time

	state deliveryState
	// began is when the round in flight did.
	began time.Time
	// again asks for another round after the one in flight.
	again bool
	// due is when a delayed delivery is ready; at is its place in the heap.
	due time.Time
	at  int
	// failures counts failed rounds in a row.
	failures int
	// outside is set while the next round waits for the outside world, not for
	// time to pass: sink without the pod, missing mirror, phase held back.
	outside bool
	// held is set while a terminal status waits for the journal.
	held bool
	// closed is set once the sink has deleted the pod.
	closed bool
	// forgotten is set once the manager dropped the entry and the sink is not to be told.
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

// enqueue asks for a round for a pod whose entry has a new version. The
// manager's lock is held, as for all methods up to run.
func (s *sender) enqueue(e *entry) {
	d := s.pods[e.uid]
	if d == nil {
		d = &delivery{entry: e}
		s.pods[e.uid] = d
	} else if d.entry != e {
		// A new life of the same UID, while the last round of the old one is ready
		// or in flight: nothing that is known of the old one counts.
		s.count(d, nil)
		if d.state == delayed {
			s.unfile(d)
		}
		*d = delivery{entry: e, state: d.state}
	}
	if d.since.IsZero() {
		d.since = e.changed
	}
	s.push(d)
}

// recheck asks for a round although there is no new version: the outside
// changed.
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

// push makes a delivery ready unless it backs off, is in flight, or has nothing but a
// status of an earlier process.
func (s *sender) push(d *delivery) {
	switch {
	case d.closed, d.entry.stale:
		return
	case d.state == sending:
		d.again = true
		return
	case d.state == delayed && !d.outside, d.state == queued:
		return
	case d.state == delayed:
		s.unfile(d)
	}
	d.state = queued
	s.ready = append(s.ready, d)
	s.notify()
}

// pending is how many changes wait for this sink that it could take. One that waits for the journal is among
// them: the sink gets it as soon as it is on the disk.
func (s *sender) pending() int {
	n := 0
	for _, d := range s.pods {
		unknown := d.outside && !d.held && d.state == delayed // to the sink
		if d.state == sending || !d.closed && !unknown && !d.entry.stale && d.acked < d.entry.version {
			n++
		}
	}
	return n
}

// next returns a delivery to send now, or how long to wait for one; a negative
// wait means for as long as nothing happens.
func (s *sender) next(now time.Time, limit int) (d *delivery, wait time.Duration) {
	for len(s.delayed) > 0 && !s.delayed[0].due.After(now) {
		d := heap.Pop(&s.delayed).(*delivery)
		d.state = queued
		s.ready = append(s.ready, d)
	}
	if len(s.ready) > 0 && s.inFlight < limit+(1+placesPerUnanswered)*s.unanswered {
		d := s.ready[0]
		s.ready[0] = nil
		s.ready = s.ready[1:]
		if len(s.ready) == 0 {
			s.ready = nil // let go of the array behind it
		}
		d.state, d.again, d.outside, d.held, d.began = sending, false, false, false, now
		s.inFlight++
		return d, 0
	}
	if len(s.delayed) > 0 {
		return nil, s.delayed[0].due.Sub(now)
	}
	return nil, -1
}

// notify wakes the sender's goroutine.
func (s *sender) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run hands out sends until ctx ends, then waits for those in flight.
func (s *sender) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	m := s.manager
	for ctx.Err() == nil {
		m.mu.Lock()
		d, wait := s.next(m.options.Clock.Now(), m.options.MaxInFlight)
		if d == nil {
			m.mu.Unlock()
			s.sleep(ctx, wait)
			continue
		}
		j := s.job(d)
		m.mu.Unlock()
		wg.Go(func() { s.round(ctx, d, j) })
	}
}

// sleep waits for work.
func (s *sender) sleep(ctx context.Context, wait time.Duration) {
	var due <-chan time.Time
	if wait >= 0 {
		timer := s.manager.options.Clock.NewTimer(wait)
		defer timer.Stop()
		due = timer.C()
	}
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
	// endedBefore: the sink may have been told the end before a restart.
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

// outcome is what one round came to.
type outcome struct {
	// result as counted; empty if nothing was to be done.
	result string
	// stored is what the sink has now, if acknowledged; target whose it is.
	stored *v1.PodStatus
	target types.UID
	// acked: the sink has the job's version.
	acked bool
	// outside: look again after ResyncPeriod, or after hold, if not 0: then the
	// journal is waited for.
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
	answered := s.watch()
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
	defer m.mu.Unlock()
	answered()
	s.inFlight--
	s.finish(d, j, o)
	s.notify()
	m.progressed()
}

// logFailure logs the first failure in a row as an error and the others at V(1): a full
// disk fails for every pod, twice a minute.
func (s *sender) logFailure(j job, err error) {
	log := s.manager.options.Logger.WithValues("sink", s.name, "uid", j.entry.uid,
		"namespace", j.pod.Namespace, "name", j.pod.Name, "version", j.version)
	if j.failures == 0 {
		log.Error(err, "status not sent, will be retried")
	} else {
		log.V(1).Info("status still not sent, will be retried", "failures", j.failures+1, "error", err.Error())
	}
}

// errSendTimeout is the cause of a send ended by Options.SendTimeout.
var errSendTimeout = errors.New("the sink did not answer in time")

// attempt calls the sink, and makes a panic an error.
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

// finish notes the outcome of a delivery and files it again. The manager's lock is held.
func (s *sender) finish(d *delivery, j job, o outcome) {
	d.state = idle
	if d.entry != j.entry { // a new life began meanwhile
		s.push(d)
		return
	}
	if o.stored != nil {
		d.stored, d.told, d.target = o.stored, j.finished, o.target
	}
	if o.acked {
		d.acked, d.since = j.version, time.Time{}
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
		return
	case !gone.IsZero() && s.manager.options.Clock.Since(gone) > forgottenAge:
		s.manager.options.Logger.Error(o.err, "The sink did not hear that a pod is forgotten", "sink", s.name, "uid", d.entry.uid)
		s.drop(d)
		return
	}
	options := &s.manager.options
	switch {
	case d.closed:
	case o.err != nil:
		s.delay(d, retryDelay(options.MinBackoff, options.MaxBackoff, d.failures, options.Jitter()))
	case d.again || d.acked < d.entry.version && !o.outside:
		s.push(d)
	case o.hold > 0:
		// What is waited for may have been written since the look.
		if options.Journal.Durable(j.entry.uid, j.finished) {
			s.push(d)
			break
		}
		d.outside, d.held = true, true
		s.delay(d, o.hold)
	case o.outside:
		d.outside = true
		s.delay(d, options.ResyncPeriod)
	}
	if d.entry.finished && d.state == idle {
		s.manager.dropDeleted(d.entry)
	}
}

// count keeps the number of failures in a row of a delivery, and the sender's
// sum of it all.
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

// unfile takes a delivery out of the queue of those that wait.
func (s *sender) unfile(d *delivery) {
	heap.Remove(&s.delayed, d.at)
	d.state = idle
}

// delay makes a delivery ready after a while.
func (s *sender) delay(d *delivery, wait time.Duration) {
	d.state, d.due = delayed, s.manager.options.Clock.Now().Add(wait)
	heap.Push(&s.delayed, d)
}

// dropDeleted drops the entry of a pod that some sink has deleted and all others
// are done with (8.6). The lock is held.
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

// retryDelay is the delay after so many failures in a row: doubling between the
// bounds, plus up to a fifth so that pods that failed together spread (8.7).
func retryDelay(shortest, longest time.Duration, failures int, jitter float64) time.Duration {
	d := backoff.Delay(shortest, longest, failures)
	return d + time.Duration(jitter*float64(d)/5)
}

// now as statuses carry it.
func (s *sender) now() metav1.Time {
	return metav1.Time{Time: wholeSeconds(s.manager.options.Clock.Now())}
}

// delayQueue is a heap of delayed deliveries by due time.
type delayQueue []*delivery

func (q delayQueue) Len() int           { return len(q) }
func (q delayQueue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q delayQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].at, q[j].at = i, j
}

// Push is for package heap.
func (q *delayQueue) Push(x any) {
	d := x.(*delivery)
	d.at = len(*q)
	*q = append(*q, d)
}

// Pop is for package heap.
func (q *delayQueue) Pop() any {
	last := len(*q) - 1
	d := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return d
}
