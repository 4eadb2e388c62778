package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/timing"
)

// maxBatch bounds the records of one batch, maxLazy the lazy ones in it, so that waits stay short.
const (
	maxBatch = 1024
	maxLazy  = 128
	// lazyDelay is how long a lazy change waits for others to be written with it.
	lazyDelay = time.Second
	// retryMin and retryMax bound the pause after a failed write; it doubles in between (spec/status.md 9.11).
	retryMin = time.Second
	retryMax = time.Minute
)

// job is one record to be written.
type job struct {
	entry  *entry
	record *Record // nil: delete
	erase  uint64  // 0: nothing to delete first
	seq    uint64
}

func byUID(a, b job) int { return cmp.Compare(a.entry.uid, b.entry.uid) }

// Run writes until ctx ends, then writes everything that is left, once. A second Run is an error.
func (k *Keeper) Run(ctx context.Context) error {
	k.mu.Lock()
	if k.running {
		k.mu.Unlock()
		return errRunning
	}
	k.running = true
	k.mu.Unlock()
	defer k.export()()
	defer k.startLog()()
	last := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		retry := k.keepReserve(k.options.Clock.Now())
		k.mu.Lock()
		now := k.options.Clock.Now()
		jobs, wait := k.next(now)
		k.mu.Unlock()
		if len(jobs) == 0 {
			if wait < 0 || retry >= 0 && retry < wait {
				wait = retry
			}
			k.sleep(ctx, now, wait)
			continue
		}
		k.write(last, jobs)
	}
	k.writeRest(last)
	return nil
}

// writeRest writes everything that is left. What fails is not tried again, and keeps nothing else
// from the disk.
func (k *Keeper) writeRest(ctx context.Context) {
	failed := map[types.UID]bool{}
	for {
		k.mu.Lock()
		jobs := k.rest(failed)
		k.mu.Unlock()
		if len(jobs) == 0 {
			return
		}
		for uid := range k.write(ctx, jobs) {
			failed[uid] = true
		}
	}
}

// rest returns what to write next at the end, durable changes first. The lock is held.
func (k *Keeper) rest(failed map[types.UID]bool) (jobs []job) {
	var lazy []job
	for _, e := range k.dirty {
		switch {
		case failed[e.uid]:
		case e.durable > e.written:
			jobs = append(jobs, e.job())
		default:
			lazy = append(lazy, e.job())
		}
	}
	slices.SortFunc(jobs, byUID)
	slices.SortFunc(lazy, byUID)
	jobs = append(jobs, lazy...)
	return jobs[:min(maxBatch, len(jobs))]
}

// sleep waits for work, which is due after the wait, counted from now, if that is not negative.
func (k *Keeper) sleep(ctx context.Context, now time.Time, wait time.Duration) {
	var at time.Time
	if wait >= 0 {
		at = now.Add(wait)
	}
	due, stop := timing.Alarm(k.options.Clock, at)
	defer stop()
	select {
	case <-k.wake:
	case <-due:
	case <-ctx.Done():
	}
}

// next returns what to write now, or how long to wait; a negative wait means until something
// happens. The lock is held.
func (k *Keeper) next(now time.Time) (jobs []job, wait time.Duration) {
	if now.Before(k.soonest) {
		return nil, k.soonest.Sub(now)
	}
	wait = -1
	var lazy []*entry
	for _, e := range k.dirty {
		wakeAt := k.wakeAt(e)
		switch {
		case e.urgent, !wakeAt.After(now) && e.durable > e.written:
			jobs = append(jobs, e.job())
		case !wakeAt.After(now):
			lazy = append(lazy, e)
		default:
			if left := wakeAt.Sub(now); wait < 0 || left < wait {
				wait = left
			}
		}
	}
	k.soonest = time.Time{}
	if wait >= 0 && len(jobs)+len(lazy) == 0 {
		k.soonest = now.Add(wait)
	}
	room := maxLazy
	if len(jobs) == 0 {
		room = maxBatch
	}
	slices.SortFunc(lazy, func(a, b *entry) int { return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.uid, b.uid)) })
	for _, e := range lazy[:min(room, len(lazy))] {
		jobs = append(jobs, e.job())
	}
	slices.SortFunc(jobs, byUID)
	return jobs[:min(maxBatch, len(jobs))], wait
}

// wakeAt is when an entry is to be written, unless it is urgent. The lock is held.
func (k *Keeper) wakeAt(e *entry) time.Time {
	at := e.since
	if e.durable <= e.written {
		at = at.Add(lazyDelay)
	}
	if at.Before(e.retry) {
		at = e.retry
	}
	return at
}

func (e *entry) job() job { return job{entry: e, record: e.record, erase: e.erase, seq: e.seq} }

// write brings one batch to the store, and returns what failed.
func (k *Keeper) write(ctx context.Context, jobs []job) (bad map[types.UID]error) {
	began := k.options.Clock.Now()
	k.busy(began)
	defer k.busy(time.Time{})
	var erase []types.UID
	for _, j := range jobs {
		if j.erase != 0 {
			erase = append(erase, j.entry.uid)
		}
	}
	bad = map[types.UID]error{}
	if len(erase) > 0 {
		err := each("Delete", erase, func(uid types.UID) types.UID { return uid }, func(uids []types.UID) error {
			return k.options.Store.Delete(ctx, uids)
		})
		noteFailed(bad, err, erase)
	}
	var records []*Record
	var uids []types.UID
	for _, j := range jobs {
		if j.record != nil && bad[j.entry.uid] == nil {
			records, uids = append(records, j.record), append(uids, j.record.UID)
		}
	}
	if len(records) > 0 {
		k.busy(k.options.Clock.Now()) // what was removed is answered
		err := each("Write", records, func(r *Record) types.UID { return r.UID }, func(records []*Record) error {
			return k.options.Store.Write(ctx, records)
		})
		noteFailed(bad, err, uids)
	}
	k.metrics.wrote(ctx, len(jobs)-len(bad), len(bad), k.options.Clock.Since(began))
	written, turn := k.finishBatch(jobs, bad)
	if turn.began != nil || turn.ended {
		k.logLater(func() { k.log(turn) })
	}
	for _, uid := range written {
		k.options.Written(uid)
	}
	return bad
}

// busy records since when the present call of the store has lasted; zero: there is none.
func (k *Keeper) busy(since time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.writing = since
}

// noteFailed notes which of these records a call of the store failed for: all of them if it does not say.
func noteFailed(bad map[types.UID]error, err error, uids []types.UID) {
	failed := byPod(err)
	maps.Copy(bad, failed)
	for _, uid := range uids {
		if err != nil && len(failed) == 0 {
			bad[uid] = err
		}
	}
}

// byPod extracts the errors of single pods from a joined error.
func byPod(err error) map[types.UID]error {
	out := map[types.UID]error{}
	var walk func(error)
	walk = func(err error) {
		switch e := err.(type) { //nolint:errorlint // the walk visits every node
		case nil:
		case *RecordError:
			out[e.UID] = e
		case interface{ Unwrap() []error }:
			for _, inner := range e.Unwrap() {
				walk(inner)
			}
		case interface{ Unwrap() error }:
			walk(e.Unwrap())
		}
	}
	walk(err)
	return out
}

// finishBatch records how a batch went, and returns the pods that were written and what is to be
// logged.
func (k *Keeper) finishBatch(jobs []job, bad map[types.UID]error) (written []types.UID, t turn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var failure error
	for _, j := range jobs {
		e := j.entry
		e.urgent = false
		switch err := bad[e.uid]; {
		case err == nil:
			e.readOnly = false
			k.succeeded(e, j)
			written = append(written, e.uid)
		case errors.Is(err, ErrReadOnly):
			e.readOnly = true
			k.succeeded(e, j)
			e.disk = nil
		default:
			failure = err
			k.failed(e, err)
		}
		if e.tried != nil {
			close(e.tried)
			e.tried = nil
		}
	}
	if failure != nil {
		return written, k.fail(failure)
	}
	return written, k.recover()
}

// succeeded records that a record is on the disk, and takes the entry off the list if nothing of it
// is unwritten. The lock is held.
func (k *Keeper) succeeded(e *entry, j job) {
	e.written, e.disk, e.err, e.pause, e.retry = j.seq, j.record, nil, 0, time.Time{}
	if j.record != nil { // a full disk can still delete
		k.wrote = k.options.Clock.Now()
	}
	if e.erase == j.erase {
		e.erase = 0
	}
	e.since = k.options.Clock.Now() // for changes made meanwhile
	if e.written < e.seq {
		return
	}
	delete(k.dirty, e.uid)
	if !e.readOnly {
		delete(k.bad, fileName(e.uid)) // a new record has replaced it
	}
	if e.record == nil {
		delete(k.entries, e.uid)
	}
}

// failed records that a record could not be written. The lock is held.
func (k *Keeper) failed(e *entry, err error) {
	e.err = err
	e.failures++
	e.pause = backoff.Next(retryMin, retryMax, e.pause)
	e.retry = k.options.Clock.Now().Add(e.pause)
}

// turn is a beginning or an end of the store's failing. The zero value is neither.
type turn struct {
	began     error
	ended     bool
	failedFor time.Duration
}

// maxLines bounds the lines that wait for the logger.
const maxLines = 16

// startLog starts the goroutine that logs for Run; end waits until it has logged what is left. A
// logger may block, and neither records nor what waits for them wait for it.
func (k *Keeper) startLog() (end func()) {
	k.lines = make(chan func(), maxLines)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for line := range k.lines {
			line()
		}
	}()
	return func() {
		close(k.lines)
		<-done
	}
}

// logLater logs without waiting. If the logger is that far behind, the oldest line is lost.
func (k *Keeper) logLater(line func()) {
	for {
		select {
		case k.lines <- line:
			return
		default:
		}
		select {
		case <-k.lines:
		default:
		}
	}
}

// log logs a turn. The lock is not held: a logger may block.
func (k *Keeper) log(t turn) {
	switch {
	case t.began != nil:
		k.options.Logger.Error(t.began, "Records cannot be written; containers whose ends are not on record stay in the runtime", stackOf(t.began)...)
	case t.ended:
		k.options.Logger.Info("Records are written again", "failedFor", t.failedFor.String())
	}
}

// fail records that the store fails. The lock is held.
func (k *Keeper) fail(err error) (t turn) {
	if k.fault.err == nil {
		k.fault.since = k.options.Clock.Now()
		t.began = err
	}
	k.fault.err = err
	k.fault.count++
	return t
}

// recover records that the store took all of a batch: the rest need not wait out its back-off. The
// lock is held.
func (k *Keeper) recover() (t turn) {
	if k.fault.err == nil {
		return t
	}
	soon := k.options.Clock.Now().Add(retryMin)
	failing := false
	for _, e := range k.dirty {
		if e.err == nil {
			continue
		}
		failing = true
		if e.retry.After(soon) {
			e.retry, k.soonest = soon, time.Time{}
		}
	}
	if !failing {
		t = turn{ended: true, failedFor: k.options.Clock.Since(k.fault.since)}
		k.fault.err = nil
	}
	return t
}
