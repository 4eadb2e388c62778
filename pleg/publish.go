package pleg

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// finish processes what a job read. Cache and records change only here and in a relist.
func (g *Generator) finish(ctx context.Context, j *job, result reading, end ending) {
	g.mu.Lock()
	defer g.unlock()
	r := j.record
	if j.unanswered {
		g.unanswered--
	} else {
		g.places--
	}
	r.busy = false
	heldBack := r.holds > 0 && len(j.readers) == 0 && result.err == nil && result.status != nil
	switch {
	case ctx.Err() != nil && (end != inTime || result.err != nil):
		g.interrupted(j)
	case end != inTime:
		// expired has noted it.
	case heldBack:
		r.request = g.view.Stamp() // D8: what was read in between is not published
	case result.err != nil:
		g.failed(j, result)
	case result.pod == nil:
		g.absent(j, result)
	case result.status == nil:
		g.observed(j, result)
	default:
		g.found(j, result)
	}
	if end == inTime && result.err == nil {
		r.failures = 0
		if !heldBack {
			r.takeIn(j, &result)
			g.clearReports(j)
		}
	}
	g.followUp(r)
}

// found processes a full reading.
func (g *Generator) found(j *job, result reading) {
	r, objects := j.record, statusObjects(result.status)
	fingerprint := g.agree(r, visible(objects, result.hidden), result.fingerprint)
	hidden := r.hide(j, result.hidden, g.options.Clock.Now())
	if g.publish(r, result.status, objects, fingerprint, j.force && len(j.readers) == 0) {
		r.hidden = hidden
	}
	status, err := g.cache.get(r.uid)
	j.answer(status, err)
}

// interrupted puts back what a job was for: its context ended, but the request stands.
func (g *Generator) interrupted(j *job) {
	r := j.record
	r.readers = append(j.readers, r.readers...)
	r.reinspect = true
	if j.listed == nil && r.request == 0 {
		r.request = g.view.Stamp()
	}
}

// failed processes a reading that returned an error (R8, R9, C6, D5): waiters get the error, the
// record stays, and the next relist reads the pod again.
func (g *Generator) failed(j *job, result reading) {
	r := j.record
	if result.stamp == 0 && j.listed != nil {
		result.stamp = j.listed.Stamp // it panicked
	}
	r.noteUnread(j, result.hidden)
	r.noteMade(j, result.made)
	if !r.known && result.status != nil {
		r.partial = result.status
	}
	if result.stamp != 0 {
		r.reinspect = true
		if g.cache.set(r.uid, nil, result.err, result.stamp) {
			r.stamp = result.stamp
			g.close(r, result.stamp)
		}
	}
	j.answer(nil, result.err)
	err, uid := result.err, r.uid
	g.later = append(g.later, func() { g.options.Logger.Error(err, "Reading of pod failed", "uid", uid) })
}

// observed processes a look that found the pod unchanged (D4, C8).
func (g *Generator) observed(j *job, result reading) {
	r := j.record
	if !slices.Equal(listedObjects(result.pod), r.objects) {
		r.request = g.view.Stamp() // something was published meanwhile: look again
		return
	}
	r.fingerprint, r.hidden = result.fingerprint, r.recalledSince(j)
	r.stamp = max(r.stamp, result.stamp)
	g.cache.setObserved(r.uid, result.stamp)
	g.close(r, result.stamp)
}

// absent processes a look at a pod of which the runtime shows nothing. A pod that may run is left to
// the relists, which confirm its absence (D5), unless a caller of ReadNow has just ended it.
func (g *Generator) absent(j *job, result reading) {
	r := j.record
	forced := len(j.readers) > 0
	_, failed := g.cache.get(r.uid)
	switch {
	case !forced && j.vanished:
		if (r.listed == nil || isEmpty(r.listed)) && r.holds == 0 && len(r.recalledSince(j)) == 0 { // otherwise another look decides
			r.listed = nil
			g.cache.relisted(0, []types.UID{r.uid}, nil, nil)
			g.forget(r)
			if g.dropped > len(g.records)/2 { // at the latest, the next list does so
				g.compact()
			}
		}
	case !forced && (r.mayRun() || g.round == 0):
		uid := r.uid
		g.later = append(g.later, func() { g.options.Logger.V(1).Info("Refreshed pod is not listed", "uid", uid) })
	case !forced && !r.known && failed == nil:
		r.stamp = max(r.stamp, result.stamp)
		g.cache.setObserved(r.uid, result.stamp)
		g.close(r, result.stamp)
	default:
		status := &runtime.PodStatus{UID: r.uid, Name: r.name, Namespace: r.namespace, Stamp: result.stamp, ObservedAt: j.began}
		if g.publish(r, status, nil, 0, false) {
			r.hidden = r.recalledSince(j)
		}
	}
	status, err := g.cache.get(r.uid)
	j.answer(status, err)
}

// publish stores a reading and then delivers what happened since the last one (PI2). It reports
// whether the reading was newer than what was known.
func (g *Generator) publish(r *record, status *runtime.PodStatus, objects []object, fingerprint uint64, sync bool) bool {
	cached, _ := g.cache.get(r.uid)
	status = keepIPs(status, cached)
	if !g.cache.set(r.uid, status, nil, status.Stamp) {
		return false
	}
	before := r.objects
	kinds, died := deriveAll(before, objects)
	if kinds == 0 && sync {
		kinds = PodSync // R10
	}
	g.index(r, before, objects)
	if status.Name != "" {
		r.name, r.namespace = status.Name, status.Namespace
	}
	r.objects, r.known, r.fingerprint, r.stamp = objects, true, fingerprint, status.Stamp
	r.alive, r.reinspect, r.missing, r.partial = anyRunning(objects), false, 0, nil
	g.close(r, status.Stamp)
	g.deliver(r, kinds, died, status)
	return true
}

// agree returns the fingerprint that the next list must have for the pod to need no reading. It is
// that of the status: if a list showed running and the reading a moment later exited, the next list
// to show running shows a change. If a runtime's lists and statuses keep contradicting each other,
// its lists are believed after some readings, so that the pod is not read endlessly (PI12).
func (g *Generator) agree(r *record, objects []object, listed uint64) uint64 {
	shown := g.printer.all(objects)
	if shown == listed || shown != r.disputed.shown || listed != r.disputed.listed {
		r.disputed = dispute{shown: shown, listed: listed}
		return shown
	}
	if r.disputed.times++; r.disputed.times < maxDisputes {
		return shown
	}
	return listed
}

// deliver hands a pod's events to the subscribers and logs what died (V2, V4).
func (g *Generator) deliver(r *record, kinds Kind, died []string, status *runtime.PodStatus) {
	order := r.order
	r.order = 0
	if kinds == 0 {
		return
	}
	g.active = g.options.Clock.Now()
	if order == 0 {
		g.changes++
		order = g.changes
	}
	g.subs.deliver(r.uid, order, g.active, kinds, died)
	if len(died) == 0 || status == nil || g.options.Logger.IsZero() { // whether it is enabled is the logger's to say, without the lock
		return
	}
	for _, c := range status.Containers {
		if c.State == runtime.Exited && slices.Contains(died, c.ID.ID) {
			uid := r.uid
			g.later = append(g.later, func() {
				g.options.Logger.Info("Container died", "uid", uid, "container", c.Name, "id", c.ID.ID, "exitCode", c.ExitCode, "reason", c.Reason)
			})
		}
	}
}

// forget drops a pod that the runtime no longer has and delivers its end (R7). If something still
// refers to the UID, an empty record stays.
func (g *Generator) forget(r *record) {
	kinds, died := deriveAll(r.objects, nil)
	g.index(r, r.objects, nil)
	g.deliver(r, kinds, died, nil)
	g.finishBatches(r)
	if !r.idle() {
		*r = record{
			uid: r.uid, name: r.name, namespace: r.namespace, request: r.request, readers: r.readers,
			holds: r.holds, queued: r.queued, busy: r.busy, stamp: r.stamp, round: r.round,
			made: r.made, gone: r.gone, list: r.list, described: r.described, tracked: r.tracked,
		}
		return
	}
	r.dropped = true
	g.dropped++
	delete(g.pods, r.uid)
}

// close follows the cache: the pod was read at stamp and is no longer outstanding, unless a later
// list says otherwise.
func (g *Generator) close(r *record, stamp runtime.Stamp) {
	if r.listed != nil && r.listed.Stamp <= stamp {
		r.listed = nil
	}
	if !g.cache.isOutstanding(r.uid) {
		r.open, r.why = false, ""
	}
}

// followUp handles what came in while the pod was being read: a later list, which may need no
// reading any more, a request, a reader.
func (g *Generator) followUp(r *record) {
	if r.listed != nil && r.upToDate(g.options.Clock.Now()) && g.printer.all(listedObjects(r.listed)) == r.fingerprint {
		stamp := r.listed.Stamp
		g.cache.setObserved(r.uid, stamp)
		r.stamp = max(r.stamp, stamp)
		g.close(r, stamp)
	}
	g.enqueue(r)
	if r.queued == notQueued && r.holds == 0 {
		r.listed = nil
	}
	if r.listed == nil {
		g.finishBatches(r)
	}
}

// finishBatches tells the relists that wait for this pod that it is done.
func (g *Generator) finishBatches(r *record) {
	if r.busy {
		return
	}
	for _, b := range r.batches {
		b.finish()
	}
	r.batches = nil
}

// clearReports forgets the reports that a reading has been compared with (D7).
func (g *Generator) clearReports(j *job) {
	r := j.record
	for id, state := range j.reports {
		if r.reports[id] == state {
			delete(r.reports, id)
		}
	}
	if len(r.reports) == 0 {
		r.reports = nil
	}
}

// index updates the table of all IDs and counts an ID that two pods claim. That is an error of the
// runtime; both pods keep the ID (E5).
func (g *Generator) index(r *record, before, after []object) {
	for _, o := range before {
		if key := (objectKey{o.id, o.sandbox}); g.ids[key] == r.uid {
			delete(g.ids, key)
		}
	}
	for _, o := range after {
		key := objectKey{o.id, o.sandbox}
		owner, taken := g.ids[key]
		if !taken {
			g.ids[key] = r.uid
			continue
		}
		if owner != r.uid {
			uid := r.uid
			g.conflicts++
			g.later = append(g.later, func() {
				g.options.Logger.Info("Runtime lists one ID in two pods", "id", key.id, "uid", uid, "other", owner)
			})
		}
	}
}
