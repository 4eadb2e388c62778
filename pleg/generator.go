package pleg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/complaint"
	"github.com/podwright/podwright/internal/podorder"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// errRunning: Run was called while another Run is active.
var errRunning = errors.New("pleg: already running")

// Errors of a [Generator], to be tested with errors.Is.
var (
	// ErrStopped: Run ended while the caller waited for a reading.
	ErrStopped = errors.New("pleg: stopped")
	// ErrNotRead: it is not known yet whether the runtime has the pod, or what it has of it.
	ErrNotRead = errors.New("the runtime has not been read for this pod yet")
)

// Generator reads the runtime and keeps one status per pod. Create one with [New].
//
// Every method may be called from any number of goroutines, before, during and
// after Run. Only Run, Relist, ReadNow, ListRunning and GetNewerThan block, and
// each of them returns soon after its context ends.
type Generator struct {
	options Options
	made    time.Time
	view    *cri.View
	cache   *cache
	subs    subscribers
	metrics *metrics
	health  listHealth
	stream  streamState
	printer printer

	// lostReads, lostLists and lostStreams count calls that never came back (B4), lostHidden those of single objects
	// that lists lack, by their IDs.
	lostReads, lostLists, lostStreams, lostHidden *lostCalls
	// relisting is held by the one relist in progress (R1).
	relisting chan struct{}
	// listing is what was logged about failed lists; the relist in progress owns it.
	listing complaint.Complaint
	// wake tells the dispatcher to look at its queues.
	wake chan struct{}

	// synced is closed once every pod of the first list has been read.
	synced chan struct{}

	// mu guards everything below. It is never held over I/O or foreign code.
	mu      sync.Mutex
	running bool
	pods    map[types.UID]*record
	// records holds the values of pods, ordered by UID once sorted is true; dropped of them are to
	// be taken out.
	records []*record
	sorted  bool
	dropped int
	// ids says which pod an ID belongs to; conflicts counts IDs that two pods claim (E5).
	ids       map[objectKey]types.UID
	conflicts int
	// urgent and queue hold the pods to be read. places counts those being read, unanswered those
	// being read that have lost their place because they get no answer.
	urgent, queue      []*record
	places, unanswered int
	// round numbers the lists; changes numbers the pods in the order they changed.
	round, changes uint64
	scan           scan
	// everListed: a list has succeeded.
	everListed bool
	// asked holds the waiting Relist calls, early asks for a relist at once, shared says that
	// ListRunning has made one (B15).
	asked         []*relistCall
	early, shared bool
	// requests counts Refresh calls, merged those that joined an earlier one.
	requests, merged int64
	// active is when something changed last.
	active time.Time
	// later holds functions to call once mu is released: logging, events.
	later []func()
}

// objectKey identifies a container or sandbox.
type objectKey struct {
	id      string
	sandbox bool
}

// New returns a generator that reads from reader. It makes no call and starts nothing. The error
// names every problem of the options.
func New(reader cri.Reader, options Options) (*Generator, error) {
	options, err := options.complete()
	if reader == nil && options.View == nil {
		err = errors.Join(errors.New("no reader and no View"), err)
	}
	if err != nil {
		return nil, fmt.Errorf("pleg options: %w", err)
	}
	g := &Generator{
		options: options, made: options.Clock.Now(), view: options.View, cache: newCache(),
		printer:   printer{maphash.MakeSeed()},
		relisting: make(chan struct{}, 1), wake: make(chan struct{}, 1), synced: make(chan struct{}),
		pods: map[types.UID]*record{}, sorted: true, ids: map[objectKey]types.UID{},
	}
	g.lostReads, g.lostLists, g.lostStreams = newLostCalls(g.signal), newLostCalls(g.signal), newLostCalls(g.signal)
	g.lostHidden = newLostCalls(g.signal)
	if g.view == nil {
		g.view = cri.NewView(reader, cri.ViewOptions{OwnerID: options.OwnerID, Sequence: options.Sequence, Clock: options.Clock})
	}
	if g.metrics, err = newMetrics(options.Meter); err != nil {
		return nil, fmt.Errorf("pleg metrics: %w", err)
	}
	return g, nil
}

// unlock releases mu and then calls the deferred functions.
func (g *Generator) unlock() {
	later := g.later
	g.later = nil
	g.mu.Unlock()
	for _, f := range later {
		f()
	}
}

// ensure returns the record of a pod, creating it if necessary.
func (g *Generator) ensure(uid types.UID) *record {
	r := g.pods[uid]
	if r == nil {
		r = &record{uid: uid}
		g.pods[uid] = r
		g.records = append(g.records, r)
		g.sorted = false
	}
	return r
}

// Stamp draws a stamp from the generator's sequence: whatever is read later carries a larger one.
func (g *Generator) Stamp() runtime.Stamp { return g.view.Stamp() }

// Get returns the last good status of the pod and, if the latest reading failed, its error. A pod
// that the runtime does not have has an empty status with its UID. A pod that was never read has a
// nil status and an error: that of its failed reading, or [ErrNotRead] if there was none yet,
// because at most a list has shown the pod. Get never blocks. The status is shared: it must not be
// modified (C2, C9).
func (g *Generator) Get(uid types.UID) (*runtime.PodStatus, error) { return g.cache.get(uid) }

// GetNewerThan waits until what is known of the pod is newer than after, and returns it: the status
// as it was read then, or as it was read earlier and seen unchanged then; an empty status with the
// UID if the runtime does not know the pod; or the error of the reading, if that failed (C3-C6). It
// returns at once if that is already the case, and with the cause of ctx if ctx ends first. The
// status is shared: it must not be modified.
func (g *Generator) GetNewerThan(ctx context.Context, uid types.UID, after runtime.Stamp) (*runtime.PodStatus, error) {
	return g.cache.getNewerThan(ctx, uid, after)
}

// Recall says which containers the pod had according to the caller's records, by their IDs: those of
// an earlier agent. A list may be partial, and nothing else tells it from a complete one before the
// pod's first reading. So what lists lack of these containers is read by ID, and the pod has no
// status until that is done: without it, they would be started a second time (R15). After the
// first list, [Generator.Relist] returns once that is done.
func (g *Generator) Recall(uid types.UID, containers ...string) {
	stamp := g.view.Stamp()
	g.mu.Lock()
	defer g.unlock()
	r := g.ensure(uid)
	for _, id := range containers {
		r.recall(id)
	}
	if g.everListed && r.recalls() {
		r.open, r.why = true, "recalled"
		g.cache.open(uid, stamp)
	}
}

// Refresh asks for a look at one pod as soon as possible and returns at once. Requests for one pod
// merge; a pod that the runtime does not know is harmless (D1, D9). Call it after each of your own
// runtime calls for the pod.
func (g *Generator) Refresh(uid types.UID) { g.request(uid, true) }

// request asks for a look at one pod: with list by listing it, otherwise at the objects that are known.
func (g *Generator) request(uid types.UID, list bool) {
	stamp := g.view.Stamp()
	g.mu.Lock()
	r := g.ensure(uid)
	g.requests++
	if r.request != 0 {
		g.merged++
	}
	r.request, r.list = stamp, r.list || list || !r.tracked
	g.active = g.options.Clock.Now()
	g.enqueue(r)
	g.unlock()
	g.signal()
}

// Hold delays readings of the pod until Release: call it before a sequence of runtime calls for the
// pod, so that no intermediate state is published (D8). Holds nest. [Generator.ReadNow] ignores a
// hold.
func (g *Generator) Hold(uid types.UID) {
	g.mu.Lock()
	defer g.unlock()
	g.ensure(uid).holds++
}

// Release ends one Hold. After the last one, a single refresh reads what was requested or noticed
// meanwhile.
func (g *Generator) Release(uid types.UID) {
	stamp := g.view.Stamp()
	g.mu.Lock()
	r := g.pods[uid]
	if r == nil || r.holds == 0 {
		g.unlock()
		return
	}
	if r.holds--; r.holds == 0 {
		r.described = nil
		if r.open || r.request != 0 {
			r.request = stamp
		}
		g.enqueue(r)
	}
	g.unlock()
	g.signal()
}

// Report says that the caller saw a container or sandbox of the pod in this state, usually because
// its own call has just put it there. If the next refresh shows an earlier state (say created after
// a successful start), it is repeated once, 100 ms later, before it is published (D7).
func (g *Generator) Report(uid types.UID, id string, state runtime.State) {
	if state == runtime.Unknown {
		return
	}
	g.mu.Lock()
	defer g.unlock()
	r := g.ensure(uid)
	if r.reports == nil {
		r.reports = map[string]runtime.State{}
	}
	r.reports[id] = max(r.reports[id], state)
	if r.described != nil && r.described.ID == id {
		r.described = nil
	}
}

// ReadNow reads the pod in full, now, publishes the reading in the cache, and returns it. Its list
// begins after the call; concurrent calls for one pod share a reading. A pod that the runtime does
// not know gives an empty status with its UID, and is believed gone; if something of it was
// running, ReadNow looks once more, 100 ms later. Use it after your own stop calls. The status is
// shared: it must not be modified.
func (g *Generator) ReadNow(ctx context.Context, uid types.UID) (*runtime.PodStatus, error) {
	return g.readNow(ctx, uid, &reader{list: true, done: make(chan struct{})})
}

func (g *Generator) readNow(ctx context.Context, uid types.UID, call *reader) (*runtime.PodStatus, error) {
	g.mu.Lock()
	r := g.ensure(uid)
	r.readers = append(r.readers, call)
	g.active = g.options.Clock.Now()
	g.enqueue(r)
	g.unlock()
	g.signal()
	err := g.drive(ctx, call.done)
	if err == nil {
		return call.status, call.err
	}
	g.mu.Lock()
	defer g.unlock()
	if r := g.pods[uid]; r != nil {
		r.readers = slices.DeleteFunc(r.readers, func(other *reader) bool { return other == call })
	}
	return nil, err
}

// ListRunning lists the runtime and returns the pods with a ready sandbox or a running container,
// sorted by UID, with all that ran and that the list lacks, until it is believed gone. The list
// begins after the call. It is for housekeeping, which must not act on an old list. During
// [Generator.Run] the list also counts as a relist, and the next one is due a period later (B15);
// without Run it leaves the cache alone.
func (g *Generator) ListRunning(ctx context.Context) ([]*runtime.Pod, error) {
	g.mu.Lock()
	running := g.running
	g.mu.Unlock()
	var listing *cri.Listing
	var err error
	if running {
		listing, _, err = g.relistOnce(ctx, true)
	} else {
		listing, err = g.list(ctx)
	}
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(g.addHidden(g.view.Pods(listing), false), func(p *runtime.Pod) bool { return !p.Running() }), nil
}

// AddHidden adds to the pods of a list what runs according to their cached statuses and the list lacks, whole pods or parts
// of them: a list may be partial, and only the answer to a reading by ID shows that an object is gone (R7). What was recalled
// counts as running until it was read. AddHidden changes the pods and returns them with those that it adds, sorted by UID. It
// makes no call and never blocks.
func (g *Generator) AddHidden(pods []*runtime.Pod) []*runtime.Pod { return g.addHidden(pods, true) }

// addHidden is AddHidden, with what has no status yet or without.
func (g *Generator) addHidden(pods []*runtime.Pod, recalled bool) []*runtime.Pod {
	listed := make(map[types.UID]*runtime.Pod, len(pods))
	for _, p := range pods {
		listed[p.UID] = p
	}
	g.mu.Lock()
	defer g.unlock()
	for _, r := range g.records {
		if r.dropped {
			continue
		}
		pod := listed[r.uid]
		if pod == nil {
			pod = &runtime.Pod{UID: r.uid, Name: r.name, Namespace: r.namespace}
		}
		status, _ := g.cache.get(r.uid)
		added := r.addRunning(pod, status)
		if recalled {
			added = r.addRecalled(pod) || added
		}
		if added {
			podorder.Pod(pod)
			if listed[r.uid] == nil {
				pods = append(pods, pod)
			}
		}
	}
	slices.SortFunc(pods, func(a, b *runtime.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return pods
}

// addRunning adds to a listed pod what it lacks, runs according to its status, and was not removed. What it adds is
// complete, because an orphan is stopped as the annotations of its containers say. It reports whether there is any.
func (r *record) addRunning(pod *runtime.Pod, status *runtime.PodStatus) (added bool) {
	if status == nil {
		return false
	}
	lacks := func(id string, state runtime.State) bool {
		return state == runtime.Running && !has(pod, id) && !slices.Contains(r.gone, id)
	}
	for _, s := range status.Sandboxes {
		if lacks(s.ID, s.State) {
			added = true
			pod.Sandboxes = append(pod.Sandboxes, s.Listed())
		}
	}
	for _, c := range status.Containers {
		if lacks(c.ID.ID, c.State) {
			added = true
			pod.Containers = append(pod.Containers, c.Listed())
		}
	}
	return added
}

// addRecalled adds to a listed pod what it lacks and was recalled: as far as it was read, if it runs, or else by its ID. It
// reports whether there is any.
func (r *record) addRecalled(pod *runtime.Pod) (added bool) {
	if !r.recalls() {
		return false
	}
	added = r.addRunning(pod, r.partial)
	for _, h := range r.hidden {
		switch {
		case !h.recalled || has(pod, h.id) || slices.Contains(r.gone, h.id) || r.partial != nil && statusHas(r.partial, h.id):
			continue
		case h.sandbox:
			pod.Sandboxes = append(pod.Sandboxes, &runtime.Sandbox{ID: h.id, State: runtime.Running})
		default:
			pod.Containers = append(pod.Containers, &runtime.Container{ID: runtime.ContainerID{ID: h.id}, State: runtime.Running})
		}
		added = true
	}
	return added
}

// Subscribe adds a subscriber, which gets what changes from now on. To miss nothing, subscribe
// before Run: the first relist then delivers every pod (R14). Close the subscription when done.
func (g *Generator) Subscribe() *Subscription { return g.subs.join() }

// Synced reports whether a complete relist has been done: every pod that the runtime knew then has
// been read, or reading it has failed.
func (g *Generator) Synced() bool { return timing.Ended(g.synced) }

// SyncedC returns a channel that is closed once [Generator.Synced] is true; it stays true.
func (g *Generator) SyncedC() <-chan struct{} { return g.synced }

// ChangedSince returns the pods whose cached status was written or removed after version; 0 means
// since the start (C12).
func (g *Generator) ChangedSince(version uint64) Changes { return g.cache.changedSince(version) }
