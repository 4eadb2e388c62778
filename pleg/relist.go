package pleg

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// scan is the scratch space of one pass over a list, kept between passes so that an unchanged node
// allocates nothing.
type scan struct {
	// sandboxes and containers hold the record of each listed object, nil for
	// foreign and malformed ones.
	sandboxes, containers []*record
	count                 listCount
}

// listCount is what one list shows, for gauges (section 11). Gauges come only from lists, never
// from differences, so they cannot drift.
type listCount struct {
	runningPods int
	containers  [4]int // by runtime.State
	// unchanged counts the pods whose fingerprint matches the list.
	unchanged int
	// unconfirmed counts the pods that may run and are missing, malformed the objects
	// without ID, metadata or image, and foreign those that belong to another owner.
	unconfirmed, malformed, foreign int
	// unread counts the pods with an object that the list lacks and that could not be read.
	unread int
}

// needsConfirmation reports whether more lists have to confirm what this one lacks.
func (c *listCount) needsConfirmation() bool { return c.unconfirmed+c.unread > 0 }

// relistOnce does one relist (section 4): list, compare, finish what needs no reading, queue the
// rest. The batch is done when the queued pods have been read. Only the list is I/O, and only the
// relist's own lock is held during it. shared says that ListRunning makes this relist (B15).
func (g *Generator) relistOnce(ctx context.Context, shared bool) (*cri.Listing, *batch, error) {
	select {
	case g.relisting <- struct{}{}: // R1
		defer g.relisted(shared)
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	began := g.options.Clock.Now() // R2
	g.health.listing(began)
	listing, err := g.list(ctx)
	took := g.options.Clock.Since(began)
	g.health.listed(began, err)
	g.metrics.relisted(ctx, began, took)
	if ctx.Err() == nil {
		g.listing.Note(g.options.Logger, began.Add(took), err, "Relist failed", "Relist works again") // R3
	}
	if err != nil {
		return nil, nil, err
	}
	b := g.compare(listing, g.options.Clock.Now(), shared)
	g.signal()
	return listing, b, nil
}

// relisted ends a relist. Once a shared relist is over, the dispatcher, which waits for it, finds it recorded, unless something
// waits to be confirmed gone: only ordinary relists count for that.
func (g *Generator) relisted(shared bool) {
	if shared {
		g.mu.Lock()
		g.shared = !g.scan.count.needsConfirmation()
		g.mu.Unlock()
		defer g.signal()
	}
	<-g.relisting
}

// list reads all pods; the time limit is for each of the calls. A call that does not return is given up at the limit;
// while two are lost, no third one is made.
func (g *Generator) list(ctx context.Context) (*cri.Listing, error) {
	if lost := g.lostLists.count(); lost >= maxLostLists {
		return nil, fmt.Errorf("%w: %d list calls hang", runtime.ErrDeadline, lost)
	}
	type result struct {
		listing *cri.Listing
		err     error
	}
	l := limits{run: g.options.ListTimeout, linger: listLinger, stop: g.options.WriteOffAfter}
	r, end := bounded(ctx, g.options.Clock, l, g.lostLists, "", nil, func(ctx context.Context) (r result) {
		defer recovered(&r.err)
		r.listing, r.err = g.view.List(ctx, "")
		return r
	})
	switch end {
	case inTime:
		return r.listing, r.err
	case stopped:
		return nil, context.Cause(ctx)
	default:
		return nil, fmt.Errorf("%w: while all pods were listed, a call got no answer within %v", runtime.ErrDeadline, g.options.ListTimeout)
	}
}

// maxLostLists bounds the lost list calls; listLinger is how long after its limit a call may still
// return.
const (
	maxLostLists = 2
	listLinger   = time.Second
)

// compare compares a list with the records. In one step under the lock, it drops pods that are
// gone, records what changed, and advances T.
func (g *Generator) compare(l *cri.Listing, now time.Time, shared bool) *batch {
	g.mu.Lock()
	defer g.unlock()
	g.round++
	g.compact() // readings have dropped some
	g.scanList(l)
	g.sortRecords()

	var removed, opened, closed []types.UID
	var gone, lacking []*record
	changed := 0
	for _, r := range g.records {
		if len(r.made) > 0 {
			r.dropShown()
		}
		listed := r.round == g.round
		if r.stamp <= l.Stamp && r.countHidden(shared) {
			g.scan.count.unread++
		}
		switch {
		case r.stamp > l.Stamp:
			// A later look was newer.
		case !listed && (r.unseen() || r.recalls() || r.covert() && !r.upToDate(now)):
			lacking = append(lacking, r)
			changed++
		case !listed && !r.covert():
			switch g.vanish(r, l.Stamp, shared) {
			case believed:
				removed, gone = append(removed, r.uid), append(gone, r)
			case unconfirmed:
				opened = append(opened, r.uid)
			case doubted:
				lacking = append(lacking, r)
				changed++
			}
		case (!listed || r.scanned == r.fingerprint) && r.upToDate(now):
			g.scan.count.unchanged++
			g.unchanged(r, l.Stamp, &closed)
		default:
			r.changedIn = g.round
			changed++
		}
	}
	b := &batch{done: make(chan struct{}), left: 1}
	if !g.everListed {
		g.everListed, b.done = true, g.synced
	}
	if changed > 0 {
		g.divide(l, lacking, now, b, &opened, &closed)
	}
	g.cache.relisted(l.Stamp, removed, opened, closed)
	for _, r := range gone {
		g.forget(r)
	}
	g.compact()
	if changed > 0 || len(gone) > 0 || g.scan.count.needsConfirmation() {
		g.active = now
	}
	b.finish()
	return b
}

// upToDate reports whether the pod needs no reading unless its list changes.
func (r *record) upToDate(now time.Time) bool {
	return r.known && !r.reinspect && !r.busy && r.reports == nil && !r.unseen() && !r.hiddenDue(now)
}

// scanList adds up the fingerprint of every listed pod. It creates records for new pods and
// allocates nothing for known ones.
func (g *Generator) scanList(l *cri.Listing) {
	s := &g.scan
	s.sandboxes, s.containers = s.sandboxes[:0], s.containers[:0]
	s.count = listCount{}
	for _, sandbox := range l.Sandboxes {
		uid, ok := g.view.SandboxUID(sandbox)
		if !ok {
			s.sandboxes = append(s.sandboxes, nil)
			g.skipped(sandbox.GetLabels())
			continue
		}
		state := objectStateOf(cri.SandboxState(sandbox.GetState()))
		r := g.touch(uid, state == running)
		if state == running && !r.ready {
			r.ready = true
			s.count.runningPods++
		}
		r.scanned += g.printer.object(sandbox.GetId(), true, state)
		r.listedMade(sandbox.GetId())
		s.sandboxes = append(s.sandboxes, r)
	}
	for _, container := range l.Containers {
		uid, ok := g.view.ContainerUID(container)
		if !ok {
			s.containers = append(s.containers, nil)
			g.skipped(container.GetLabels())
			continue
		}
		full := cri.ContainerState(container.GetState())
		s.count.containers[full]++
		state := objectStateOf(full)
		r := g.touch(uid, state == running)
		r.scanned += g.printer.object(container.GetId(), false, state)
		r.listedMade(container.GetId())
		s.containers = append(s.containers, r)
	}
}

// touch returns the pod's record with its scratch space set up for this list.
func (g *Generator) touch(uid types.UID, runs bool) *record {
	r := g.ensure(uid)
	if r.round != g.round {
		r.round, r.scanned, r.alive, r.ready, r.missing = g.round, 0, false, false, 0
	}
	r.alive = r.alive || runs
	return r
}

func (g *Generator) skipped(labels map[string]string) {
	if g.view.Owns(labels) {
		g.scan.count.malformed++
	} else {
		g.scan.count.foreign++
	}
}

// unchanged is rule R6: the list shows the pod as it is known, so no call is made.
func (g *Generator) unchanged(r *record, t runtime.Stamp, closed *[]types.UID) {
	if r.open {
		r.open, r.why = false, ""
		*closed = append(*closed, r.uid)
	}
	r.listed = nil
	if r.request < t {
		r.request = 0 // D3: this list is the requested look
	}
	g.finishBatches(r)
}

// absence says what to conclude about a pod that a list lacks.
type absence uint8

const (
	ignored     absence = iota
	unconfirmed         // keep it; this list proves nothing about it
	doubted             // enough lists have lacked it: reading its objects by their IDs decides
	believed            // it is gone
)

// vanish judges a pod that the list lacks. A pod that may run is believed gone only when further
// lists agree and the runtime does not find its objects: a runtime that has just restarted may show
// an empty or partial list for a while.
func (g *Generator) vanish(r *record, t runtime.Stamp, shared bool) absence {
	r.listed = nil
	g.finishBatches(r)
	shown := r.known || g.cache.has(r.uid)
	switch {
	case shown && (r.busy || r.holds > 0 && len(r.objects) > 0):
		r.open, r.why = true, "not listed, a reading or a hold is under way"
		return unconfirmed
	case r.mayRun() && r.missing < g.options.ConfirmVanished:
		if !shared { // lists of ListRunning may directly follow each other
			r.missing++
		}
		r.open, r.why = true, "not listed, to be confirmed"
		g.scan.count.unconfirmed++
		return unconfirmed
	case r.mayRun() && len(r.objects) > 0:
		g.scan.count.unconfirmed++
		return doubted
	}
	if r.holds == 0 && r.request < t {
		r.request = 0 // D3
	}
	if !shown && !r.idle() {
		return ignored
	}
	return believed
}

// divide takes the changed pods of a list and decides what becomes of each: found unchanged after a
// closer look, read now, or left outstanding (R5, R8, D8, B4). The list shows nothing of the pods
// in lacking, although they may have something.
func (g *Generator) divide(l *cri.Listing, lacking []*record, now time.Time, b *batch, opened, closed *[]types.UID) {
	pods := g.view.Pods(g.changedPart(l))
	for _, r := range lacking {
		pods = append(pods, &runtime.Pod{UID: r.uid, Name: r.name, Namespace: r.namespace, Stamp: l.Stamp})
	}
	for _, pod := range pods {
		r := g.pods[pod.UID]
		r.name, r.namespace = pod.Name, pod.Namespace
		r.listedAgain(pod)
		if r.known && !r.recalls() && !r.reinspect && !r.busy && r.reports == nil && !r.unseen() && slices.Equal(listedObjects(pod), r.objects) {
			// The pod was listed in another way, or its status was ahead of the list.
			r.fingerprint, r.hidden = r.scanned, nil
			g.unchanged(r, l.Stamp, closed)
			continue
		}
		r.open = true
		*opened = append(*opened, r.uid)
		if r.order == 0 {
			g.changes++
			r.order = g.changes
		}
		switch {
		case r.holds > 0:
			r.listed, r.why = pod, "held"
		case g.resting(r, now):
			r.listed, r.why = nil, "resting after a reading that ran out of time"
		default:
			r.listed, r.why = pod, "reading"
			if r.request < l.Stamp {
				r.request = 0
			}
			b.left++
			r.batches = append(r.batches, b)
			g.enqueue(r)
		}
	}
}

// changedPart returns the part of a list that belongs to pods whose
// fingerprint differs.
func (g *Generator) changedPart(l *cri.Listing) *cri.Listing {
	part := &cri.Listing{Stamp: l.Stamp, Runtime: l.Runtime}
	for i, r := range g.scan.sandboxes {
		if r != nil && r.changedIn == g.round {
			part.Sandboxes = append(part.Sandboxes, l.Sandboxes[i])
		}
	}
	for i, r := range g.scan.containers {
		if r != nil && r.changedIn == g.round {
			part.Containers = append(part.Containers, l.Containers[i])
		}
	}
	return part
}

// sortRecords keeps the records in order of UID, so that runs are reproducible
// (B1).
func (g *Generator) sortRecords() {
	if g.sorted {
		return
	}
	slices.SortFunc(g.records, func(a, b *record) int { return cmp.Compare(a.uid, b.uid) })
	g.sorted = true
}

// compact removes dropped records from the list of records.
func (g *Generator) compact() {
	if g.dropped == 0 {
		return
	}
	g.records = slices.DeleteFunc(g.records, func(r *record) bool { return r.dropped })
	g.dropped = 0
}
