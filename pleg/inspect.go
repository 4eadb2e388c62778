package pleg

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/runtime"
)

// job is one reading of one pod. It holds copies of what it needs, so that a hanging call shares
// nothing with the rest.
type job struct {
	record *record
	// listed is the listing to read; if nil, the pod is listed first, or the objects of union are
	// read if that is set.
	listed, union *runtime.Pod
	// force reads in full even if the listing looks unchanged.
	force bool
	// twice looks a second time before believing that the pod is not listed.
	twice bool
	// asked: a caller waits for the reading.
	asked   bool
	known   bool
	objects []object
	// last is the pod's last good status, nil if there is none.
	last        *runtime.PodStatus
	fingerprint uint64
	reports     map[string]runtime.State
	made        []madeObject
	gone        []string
	hidden      []hiddenObject
	described   *runtime.SandboxStatus
	// vanished: the lists lack the whole pod, and the job reads what it had by ID.
	vanished bool
	// notFound are the objects that the job has found to be gone. They are not read a second time.
	notFound []string
	// readers and unanswered (the job has lost its place) are guarded by Generator.mu; the rest is
	// not written again.
	readers    []*reader
	unanswered bool
	began      time.Time
}

// reading is the result of a job.
type reading struct {
	// stamp was drawn before the list; 0 if there was none.
	stamp runtime.Stamp
	// pod as listed, nil if the runtime does not list it.
	pod         *runtime.Pod
	fingerprint uint64
	// status is nil if the listing looks unchanged or there is an error.
	status *runtime.PodStatus
	// shown are the made objects that a list shows, missing those that are gone.
	shown, missing []string
	// hidden are the objects of status that the list lacks, made those that were made and lists had once.
	hidden, made []hiddenReading
	err          error
}

// reportDelay is how long a reading that is hard to believe is held back (D7).
const reportDelay = 100 * time.Millisecond

// placePatience is how long a reading may go unanswered before it loses its place, and
// placesPerUnanswered is how many extra places the others get for it: more than one, so that a
// crowd of hanging readings clears quickly (B1, IN1).
const (
	placePatience       = 500 * time.Millisecond
	placesPerUnanswered = 3
)

// Back-off of a pod whose reading ran out of time (B4), and how often users are told (B3).
const (
	firstBackoff = time.Second
	maxBackoff   = time.Minute
	warnInterval = time.Minute
)

// enqueue puts a pod into the queue of pods to be read, unless it is already there, is being read,
// or must not be read now.
func (g *Generator) enqueue(r *record) {
	if r.busy || !r.wanted() {
		return
	}
	switch {
	case r.request != 0 || len(r.readers) > 0:
		if r.queued != urgently {
			r.queued = urgently
			g.urgent = append(g.urgent, r)
		}
	case r.queued == notQueued:
		r.queued = inTurn
		g.queue = append(g.queue, r)
	}
}

// queueing says in which queue a pod is. A pod that becomes urgent leaves its entry in the other
// queue behind; next skips it.
type queueing uint8

const (
	notQueued queueing = iota
	inTurn
	urgently
)

// wanted reports whether there is something to read that may be read now.
func (r *record) wanted() bool {
	return len(r.readers) > 0 || r.holds == 0 && (r.request != 0 || r.listed != nil)
}

// pump starts readings while there are pods to read and free places. Requests go before what a
// relist found.
func (g *Generator) pump(ctx context.Context, running *sync.WaitGroup) {
	for {
		g.mu.Lock()
		j := g.next()
		g.unlock()
		if j == nil {
			return
		}
		running.Go(func() { g.perform(ctx, j) })
	}
}

// next takes the next job, or returns nil if there is no job or no free place.
func (g *Generator) next() *job {
	for g.places < g.options.Inspections+placesPerUnanswered*g.unanswered {
		var r *record
		from := urgently
		switch {
		case len(g.urgent) > 0:
			r, g.urgent = g.urgent[0], g.urgent[1:]
		case len(g.queue) > 0:
			r, g.queue, from = g.queue[0], g.queue[1:], inTurn
		default:
			return nil
		}
		if r.queued != from {
			continue
		}
		r.queued = notQueued
		if j := g.begin(r); j != nil {
			g.places++
			return j
		}
		if !r.busy {
			r.listed = nil
			g.finishBatches(r)
		}
	}
	return nil
}

// begin creates the job of a pod, or returns nil if the reason to read it has gone or the pod is
// resting.
func (g *Generator) begin(r *record) *job {
	if r.dropped || r.busy || !r.wanted() {
		return nil
	}
	if lost := g.lostReads.of(r.uid); lost >= maxLostPerPod {
		r.refuse(fmt.Errorf("%w: %d readings of pod %s hang", runtime.ErrDeadline, lost, r.uid))
	}
	if len(r.readers) == 0 && g.resting(r, g.options.Clock.Now()) {
		return nil // the next relist after the rest takes it up again
	}
	j := &job{
		record: r, known: r.known, objects: r.objects, fingerprint: r.fingerprint,
		force: r.reinspect || len(r.readers) > 0, twice: r.mayRun() && len(r.readers) > 0, asked: len(r.readers) > 0, readers: r.readers,
		reports: maps.Clone(r.reports), began: g.options.Clock.Now(),
		made: slices.Clone(r.made), gone: slices.Clone(r.gone), hidden: slices.Clone(r.hidden), described: r.described,
	}
	j.last, _ = g.cache.get(r.uid)
	// Only a list shows what was made for a pod that is not tracked.
	list := r.list || r.request != 0 && !r.tracked || slices.ContainsFunc(r.readers, func(call *reader) bool { return call.list })
	switch {
	case len(r.readers) == 0 && r.request == 0:
		j.listed = r.listed
		j.vanished = isEmpty(r.listed) && len(r.made) == 0
	case !list && g.complete(r):
		j.union = g.union(r)
	}
	r.readers, r.listed, r.request, r.list, r.busy, r.described = nil, nil, 0, false, true, nil
	return j
}

// waits takes the place of a job that gets no answer (B1).
func (g *Generator) waits(j *job) {
	g.mu.Lock()
	j.unanswered = true
	g.places--
	g.unanswered++
	g.unlock()
	g.signal()
}

// perform runs a job within its limits and processes what it found (B3, B4).
func (g *Generator) perform(ctx context.Context, j *job) {
	l := limits{run: g.options.InspectTimeout, linger: g.options.WriteOffAfter - g.options.InspectTimeout, stop: g.options.WriteOffAfter}
	if l.run > placePatience {
		l.patience, l.waiting = placePatience, func() { g.waits(j) }
	}
	result, end := bounded(ctx, g.options.Clock, l, g.lostReads, j.record.uid, func() { g.expired(j) }, func(ctx context.Context) (result reading) {
		defer recovered(&result.err)
		return g.read(ctx, j)
	})
	g.metrics.read(ctx, g.options.Clock.Since(j.began), j.listed == nil)
	g.finish(ctx, j, result, end)
	g.signal()
}

// read does the I/O of a job, without any lock.
func (g *Generator) read(ctx context.Context, j *job) reading {
	if j.union != nil {
		result, found := g.readObjects(ctx, j)
		if !found && !j.asked {
			return reading{stamp: result.stamp} // left to the relists (D5)
		}
		if found && (result.err != nil || !behind(j.reports, result.pod, result.status)) {
			return result
		}
	}
	result := g.readOnce(ctx, j, j.listed)
	// A pod that may run may be absent because the runtime has just restarted. Refreshes leave
	// that to the relists; ReadNow lists twice.
	vanished := result.pod == nil && j.twice
	if result.err != nil || !vanished && !behind(j.reports, result.pod, result.status) {
		return result
	}
	timer := g.options.Clock.NewTimer(reportDelay)
	defer timer.Stop()
	select {
	case <-timer.C():
		return g.readOnce(ctx, j, nil)
	case <-ctx.Done():
		return reading{err: context.Cause(ctx)}
	}
}

// readOnce reads a pod as it was listed, or lists it first. What it should have and the list lacks is read by its ID.
func (g *Generator) readOnce(ctx context.Context, j *job, listed *runtime.Pod) (result reading) {
	if listed == nil {
		listing, err := g.view.List(ctx, j.record.uid)
		if err != nil {
			return reading{err: err}
		}
		result.stamp = listing.Stamp
		listed = j.find(g.view.Pods(listing), listing.Stamp)
	}
	for _, m := range j.made {
		if has(listed, m.id) {
			result.shown = append(result.shown, m.id)
		}
	}
	pod := j.withMade(listed)
	if !j.known {
		j.recallSandboxes(pod)
	}
	objects, unlisted := listedObjects(pod), j.unlisted(pod)
	if len(objects)+len(unlisted) == 0 {
		result.missing = j.missing(nil)
		return result
	}
	result.pod, result.stamp, result.fingerprint = pod, pod.Stamp, g.printer.all(objects)
	if !j.force && j.known && pod == listed && len(unlisted) == 0 && slices.Equal(objects, j.objects) {
		return result
	}
	g.readAll(ctx, j, &result, unlisted)
	if result.err == nil && !holds(result.status) && (len(result.missing) > 0 || len(listed.Sandboxes)+len(listed.Containers) == 0) {
		result.pod, result.status = nil, nil // what was known is gone, and the list shows nothing either
	}
	return result
}

// readAll reads the objects of the result's pod, and then those that the list lacks.
func (g *Generator) readAll(ctx context.Context, j *job, result *reading, unlisted []*runtime.Pod) {
	once := j.onceListed(result.shown)
	if result.status, result.err = g.view.PodStatus(ctx, without(result.pod, once)); result.err != nil {
		return
	}
	if len(once) > 0 {
		if result.made, result.err = g.readMade(ctx, j, result.status, once); result.err != nil {
			return
		}
	}
	if len(unlisted) > 0 {
		result.hidden, result.err = g.readHidden(ctx, j, result.status, unlisted)
	}
	result.missing = j.missing(result.status)
}

// find returns the job's pod as it was listed, without objects if it was not.
func (j *job) find(pods []*runtime.Pod, stamp runtime.Stamp) *runtime.Pod {
	for _, p := range pods {
		if p.UID == j.record.uid {
			return p
		}
	}
	pod := &runtime.Pod{UID: j.record.uid, Stamp: stamp}
	if j.last != nil {
		pod.Name, pod.Namespace = j.last.Name, j.last.Namespace
	}
	return pod
}

// expired records that a job ran into its limit, while its call may still hang: the entry keeps its
// status, and the pod is no longer covered by relists (B3).
func (g *Generator) expired(j *job) {
	g.mu.Lock()
	defer g.unlock()
	r, now := j.record, g.options.Clock.Now()
	if r.failures++; r.failures == 1 {
		r.failing = now.Add(-g.options.InspectTimeout)
	}
	r.failed = now
	r.backoff = backoff.Delay(firstBackoff, maxBackoff, r.failures)
	r.reinspect = true
	r.open, r.why = true, "a reading ran out of time"
	g.cache.open(r.uid, g.view.Stamp())
	err := fmt.Errorf("%w: while pod %s was read, a call got no answer within %v", runtime.ErrDeadline, r.uid, g.options.InspectTimeout)
	j.answer(nil, err)
	for _, b := range r.batches {
		b.finish()
	}
	r.batches = nil
	if !r.warned.IsZero() && now.Sub(r.warned) >= 0 && now.Sub(r.warned) < warnInterval {
		return
	}
	r.warned = now
	failures, object := r.failures, &corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: r.namespace, Name: r.name, UID: r.uid}
	g.later = append(g.later, func() {
		g.options.Logger.Info("Inspection timed out", "uid", object.UID, "pod", object.Namespace+"/"+object.Name, "failures", failures, "limit", g.options.InspectTimeout)
		g.tell(object)
	})
}

// tell writes the event of a reading that ran out of time. A recorder that panics harms nothing else (B2).
func (g *Generator) tell(object *corev1.ObjectReference) {
	defer func() {
		if p := recover(); p != nil {
			g.options.Logger.Error(fmt.Errorf("panic: %v\n%s", p, debug.Stack()), "Event recorder panicked", "uid", object.UID)
		}
	}()
	if g.options.Recorder != nil {
		g.options.Recorder.Eventf(object, corev1.EventTypeWarning, "InspectionTimedOut", "The container runtime, asked about the pod, did not answer within %v", g.options.InspectTimeout)
	}
}

// refuse ends the ReadNow calls waiting for a pod.
func (r *record) refuse(err error) {
	for _, call := range r.readers {
		call.err = err
		close(call.done)
	}
	r.readers = nil
}

// answer ends the ReadNow calls that a job serves.
func (j *job) answer(status *runtime.PodStatus, err error) {
	for _, r := range j.readers {
		r.status, r.err = status, err
		close(r.done)
	}
	j.readers = nil
}
