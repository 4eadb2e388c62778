package syncloop

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
)

// queueCapacity is how many accepted messages may wait for the loop. A source
// that delivers more blocks; nothing is dropped (section 2).
const queueCapacity = 50

// batch is what one accepted message means. It is never empty.
type batch struct {
	operations []operation
	accepted   time.Time
	source     string
	// number orders messages. decides: the source was undecided before this one,
	// and no longer is.
	number  uint64
	decides bool
}

// mux merges the sets of all sources into one totally ordered stream (M2).
//
// The turn token, not a mutex, serialises deliveries: a delivery may have to wait
// for the loop, and whoever waits must be able to give up. Nothing is committed
// before its batch is in the queue, so giving up loses nothing.
type mux struct {
	clock    clock.PassiveClock
	recorder EventRecorder
	metrics  *metrics
	turn     chan struct{}
	queue    chan batch

	desired *desired           // owned by the holder of turn
	sources map[string]*wanted // fixed
	// undecided are the sources with that ability; fixed.
	undecided map[string]Undecided

	mu       sync.Mutex
	statuses map[string]*SourceStatus
	doubts   map[string]uint64 // number of the newest message of an undecided source
}

func newMux(sources []Source, c clock.PassiveClock, recorder EventRecorder, m *metrics) *mux {
	x := &mux{
		clock: c, recorder: recorder, metrics: m,
		turn:      make(chan struct{}, 1),
		queue:     make(chan batch, queueCapacity),
		sources:   map[string]*wanted{},
		undecided: map[string]Undecided{},
		statuses:  map[string]*SourceStatus{},
		doubts:    map[string]uint64{},
	}
	all := make([]*wanted, 0, len(sources))
	for _, s := range sources {
		precedence := PrecedenceInProcess
		if p, ok := s.(Preceded); ok {
			precedence = p.Precedence()
		}
		w := &wanted{name: s.Name(), precedence: precedence}
		if u, ok := s.(Undecided); ok {
			x.undecided[w.name] = u
		}
		x.sources[w.name] = w
		x.statuses[w.name] = &SourceStatus{Name: w.name, Precedence: precedence}
		all = append(all, w)
	}
	x.desired = newDesired(all)
	return x
}

// deliver takes over the full set of one source. It blocks while other sources
// deliver and while the queue is full; when ctx ends first nothing has changed.
func (x *mux) deliver(ctx context.Context, source string, pods []*v1.Pod) error {
	var undecided error
	if u, ok := x.undecided[source]; ok {
		undecided = u.Undecided()
	}
	select {
	case x.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	reports, err := x.accept(ctx, x.sources[source], pods, undecided)
	<-x.turn
	for _, r := range reports {
		x.report(ctx, source, r)
	}
	return err
}

// accept is deliver for the holder of turn.
func (x *mux) accept(ctx context.Context, src *wanted, pods []*v1.Pod, undecided error) ([]report, error) {
	now := x.clock.Now()
	c := x.desired.prepare(src, pods, now)
	number := x.desired.generation
	decides := x.doubt(src.name, number, undecided)
	if decides && len(c.operations) == 0 {
		// Nothing else carries the news past the messages that still wait.
		c.operations = append(c.operations, operation{op: opAdd, source: src.name})
	}
	if len(c.operations) > 0 {
		select {
		case x.queue <- batch{operations: c.operations, accepted: now, source: src.name, number: number, decides: decides}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	x.desired.commit(c)

	x.mu.Lock()
	defer x.mu.Unlock()
	for _, s := range x.desired.sources {
		x.statuses[s.name].Pods = len(s.order)
		x.statuses[s.name].Suppressed = s.suppressed
	}
	status := x.statuses[src.name]
	status.Seen, status.LastDelivery, status.RunError = true, now, nil
	return c.reports, nil
}

// doubt takes over what a source says of the message with this number. That it is
// undecided holds at once, before the loop can see the set. That it has decided
// (decides) holds only when the loop knows the pods named since: see handled.
func (x *mux) doubt(source string, number uint64, undecided error) (decides bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.statuses[source]
	if undecided != nil {
		s.Undecided, x.doubts[source] = undecided, number
		return false
	}
	return s.Undecided != nil
}

// handled notes that the loop has handled all of a message.
func (x *mux) handled(b batch) {
	if !b.decides {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.doubts[b.source] < b.number { // else it is undecided again
		x.statuses[b.source].Undecided = nil
	}
}

// report tells the pod's owner that another pod has its place (M4).
func (x *mux) report(ctx context.Context, source string, r report) {
	x.metrics.refused(ctx, source)
	if x.recorder == nil {
		return
	}
	what := "full name"
	if r.refusal.winner == r.refusal.uid {
		what = "UID"
	}
	x.recorder.Eventf(r.pod.DeepCopy(), v1.EventTypeWarning, "FailedValidation",
		"pod %s/%s (UID %s) of source %q is left out: its %s belongs to a pod (UID %s) of source %q",
		r.refusal.name.namespace, r.refusal.name.name, r.refusal.uid, source, what, r.refusal.winner, r.refusal.by)
}

// consumed notes that the loop has handled an operation of source, and reports
// whether that made the last source ready (R1b).
func (x *mux) consumed(source string) (nowReady bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.statuses[source]
	if s == nil || s.Ready {
		return false
	}
	s.Ready = true
	return x.readyLocked()
}

// ready reports whether every source is (R1, R2).
func (x *mux) ready() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.readyLocked()
}

func (x *mux) readyLocked() bool {
	for _, s := range x.statuses {
		if !s.Ready {
			return false
		}
	}
	return true
}

// update changes the status of one source.
func (x *mux) update(source string, f func(*SourceStatus)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f(x.statuses[source])
}

// status returns copies of the statuses, in the order of names.
func (x *mux) status(names []string) []SourceStatus {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := make([]SourceStatus, 0, len(names))
	for _, n := range names {
		out = append(out, *x.statuses[n])
	}
	return slices.Clip(out)
}
