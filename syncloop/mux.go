package syncloop

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/podinfo"
)

// queueCapacity is how many accepted messages may wait for the loop. A source
// that delivers more blocks; nothing is dropped (section 2).
const queueCapacity = 50

// batch is what one accepted message means. It is never empty.
type batch struct {
	operations []operation
	accepted   time.Time
	source     string // "" if no message led to it
	// number orders messages. decides: the source was undecided before this one,
	// and no longer is.
	number  uint64
	decides bool
}

// mux merges the sets of all sources into one totally ordered stream (M2).
//
// The turn token, not a mutex, serialises deliveries: a delivery may have to wait
// for the loop, and a waiting caller must be able to give up. Nothing is committed
// before its batch is in the queue, so giving up loses nothing.
type mux struct {
	clock    clock.PassiveClock
	recorder podinfo.EventRecorder
	metrics  *metrics
	turn     chan struct{}
	queue    chan batch

	desired *desired // owned by the holder of turn

	mu      sync.Mutex
	sources map[string]*wanted
	// undecided are the sources with that ability.
	undecided map[string]Undecided
	statuses  map[string]*SourceStatus
	// undecidedAt has the number of the newest message of an undecided source.
	undecidedAt map[string]uint64
	leftOut     leftOut
}

func newMux(sources []member, c clock.PassiveClock, recorder podinfo.EventRecorder, m *metrics) *mux {
	x := &mux{
		clock: c, recorder: recorder, metrics: m,
		turn:        make(chan struct{}, 1),
		queue:       make(chan batch, queueCapacity),
		sources:     map[string]*wanted{},
		undecided:   map[string]Undecided{},
		statuses:    map[string]*SourceStatus{},
		undecidedAt: map[string]uint64{},
		leftOut:     leftOut{},
	}
	x.desired = newDesired(nil)
	for _, s := range sources {
		x.register(s)
	}
	return x
}

// register makes room for a source. The caller holds turn, or x is not shared yet.
func (x *mux) register(s member) {
	w := &wanted{name: s.name, precedence: s.precedence}
	x.desired.add(w)
	x.mu.Lock()
	defer x.mu.Unlock()
	if u, ok := s.source.(Undecided); ok {
		x.undecided[w.name] = u
	}
	x.sources[w.name] = w
	x.statuses[w.name] = &SourceStatus{Name: w.name, Precedence: w.precedence}
}

// add makes room for a source and then starts it, in its turn (R4).
func (x *mux) add(ctx context.Context, s member, start func() error) error {
	if err := x.take(ctx); err != nil {
		return err
	}
	defer func() { <-x.turn }()
	if x.lookup(s.name) != nil {
		return fmt.Errorf("syncloop: source cannot be added: two sources are called %q", s.name)
	}
	x.register(s)
	err := start()
	if err != nil {
		x.unregister(s.name)
	}
	return err
}

// unregister undoes register for a source that has delivered nothing.
func (x *mux) unregister(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.desired.sources = slices.DeleteFunc(x.desired.sources, func(w *wanted) bool { return w.name == name })
	delete(x.sources, name)
	delete(x.undecided, name)
	delete(x.statuses, name)
}

// take takes the turn.
func (x *mux) take(ctx context.Context) error {
	select {
	case x.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lookup returns what a source wants; the holder of turn may look into it.
func (x *mux) lookup(source string) *wanted {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sources[source]
}

// declare makes a source that has not delivered count as seen (R5). It reports whether
// the source was unseen.
func (x *mux) declare(ctx context.Context, source string) (bool, error) {
	return x.see(ctx, source, nil)
}

// close makes a source that ended without a delivery count as seen. It still wants the pods
// that it wanted before, which are not known here, so it stays undecided (IN9). It reports
// whether the source was unseen.
func (x *mux) close(ctx context.Context, source string) (bool, error) {
	return x.see(ctx, source, errClosedUnheard)
}

// see makes a source that has not delivered count as seen; undecided, if not nil, says why it
// may want pods nevertheless.
func (x *mux) see(ctx context.Context, source string, undecided error) (unseen bool, err error) {
	if err := x.take(ctx); err != nil {
		return false, err
	}
	defer func() { <-x.turn }()
	src := x.lookup(source)
	if src.seen {
		return false, nil
	}
	if _, err := x.accept(ctx, src, nil, undecided); err != nil {
		return false, err
	}
	x.update(source, func(s *SourceStatus) {
		s.Declared, s.LastDelivery = undecided == nil, time.Time{}
	})
	return true, nil
}

// deliver accepts the full set of one source. It blocks while other sources deliver
// and while the queue is full; if ctx ends first, nothing has changed.
func (x *mux) deliver(ctx context.Context, source string, pods []*v1.Pod) error {
	var undecided error
	if u := x.undecidedOf(source); u != nil {
		undecided = u.Undecided()
	}
	reports, err := x.acceptInTurn(ctx, source, pods, undecided)
	for _, r := range reports {
		x.report(ctx, r)
	}
	return err
}

// acceptInTurn waits for the turn and accepts. A panic of the program's functions that accept calls
// ends the turn too: it must not stop the other sources.
func (x *mux) acceptInTurn(ctx context.Context, source string, pods []*v1.Pod, undecided error) ([]report, error) {
	if err := x.take(ctx); err != nil {
		return nil, err
	}
	defer func() { <-x.turn }()
	return x.accept(ctx, x.lookup(source), pods, undecided)
}

func (x *mux) undecidedOf(source string) Undecided {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.undecided[source]
}

// accept is deliver for the holder of turn.
func (x *mux) accept(ctx context.Context, src *wanted, pods []*v1.Pod, undecided error) ([]report, error) {
	now := x.clock.Now()
	c := x.desired.prepare(src, pods, now)
	number := x.desired.generation
	decides := x.noteUndecided(src.name, number, undecided)
	if decides && len(c.operations) == 0 {
		// The message passes on the change, behind those that still wait.
		c.operations = append(c.operations, operation{op: opAdd, source: src.name})
	}
	if len(c.operations) > 0 {
		select {
		case x.queue <- batch{operations: c.operations, accepted: now, source: src.name, number: number, decides: decides}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	x.commit(c, now)
	x.update(src.name, func(s *SourceStatus) {
		s.Seen, s.Declared, s.LastDelivery, s.RunError = true, false, now, nil
	})
	return c.reports, nil
}

// commit applies a change whose operations are in the queue, and shows it.
func (x *mux) commit(c *change, now time.Time) {
	x.desired.commit(c)
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, s := range x.desired.sources {
		x.statuses[s.name].Pods = len(s.order)
		x.statuses[s.name].Suppressed = s.suppressed
	}
	x.leftOut.follow(x.desired.sources, c.reports, now)
}

// again gives UIDs of which nothing is left to the pods that wait for them (PS6). It does not wait: while a message is
// being accepted, or the queue is full, it leaves that to the next call.
func (x *mux) again(ctx context.Context) {
	for _, r := range x.againInTurn() {
		x.report(ctx, r)
	}
}

func (x *mux) againInTurn() []report {
	select {
	case x.turn <- struct{}{}:
	default:
		return nil
	}
	defer func() { <-x.turn }()
	if !x.desired.awaitsUID() || len(x.queue) == cap(x.queue) {
		return nil
	}
	now, c := x.clock.Now(), x.desired.prepareAgain()
	if len(c.operations) > 0 {
		x.queue <- batch{operations: c.operations, accepted: now} // only the holder of turn sends: there is room
	}
	x.commit(c, now)
	return c.reports
}

// noteUndecided records what a source says about the message with this number. That it is
// undecided takes effect at once, before the loop can see the set. That it has decided
// (decides) takes effect once the loop knows the pods that were named since: see handled.
func (x *mux) noteUndecided(source string, number uint64, undecided error) (decides bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.statuses[source]
	if undecided != nil {
		if s.Undecided == nil {
			s.UndecidedSince = x.clock.Now()
		}
		s.Undecided, x.undecidedAt[source] = undecided, number
		return false
	}
	return s.Undecided != nil
}

// handled records that the loop has handled all of a message.
func (x *mux) handled(b batch) {
	if !b.decides {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.undecidedAt[b.source] < b.number { // otherwise it is undecided again
		s := x.statuses[b.source]
		s.Undecided, s.UndecidedSince = nil, time.Time{}
	}
}

// report counts a pod that was left out (M4, M9), and records an event about it, or about what was not
// done of what its source says (PS5, PS7).
func (x *mux) report(ctx context.Context, r report) {
	if r.refusal.why == "" {
		x.metrics.refused(ctx, r.source)
	}
	if x.recorder == nil {
		return
	}
	if r.refusal.lowered {
		x.recorder.Eventf(r.pod.DeepCopy(), v1.EventTypeWarning, "PriorityLowered", "the pod has a lower priority than it claims: %s", r.refusal.why)
		return
	}
	if r.refusal.why != "" {
		x.recorder.Eventf(r.pod.DeepCopy(), v1.EventTypeWarning, "ChangeRefused",
			"the pod stays as it is, because its source may not change it so: %s", r.refusal.why)
		return
	}
	x.recorder.Eventf(r.pod.DeepCopy(), v1.EventTypeWarning, "FailedValidation", "%s", r.lost())
}

// consumed records that the loop has handled a message with operations of these
// sources, and reports whether that made the last source ready (R1b).
func (x *mux) consumed(sources []string) (nowReady bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	news := false
	for _, name := range sources {
		if s := x.statuses[name]; s != nil && !s.Ready {
			s.Ready, news = true, true
		}
	}
	return news && x.readyLocked("")
}

// ready reports whether every source is, except one; "" excepts none (R1, R2).
func (x *mux) ready(except string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.readyLocked(except)
}

func (x *mux) readyLocked(except string) bool {
	for name, s := range x.statuses {
		if !s.Ready && (name != except || except == "") {
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

// status returns copies of the statuses, in the order of the sources.
func (x *mux) status(sources []member) []SourceStatus {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := make([]SourceStatus, 0, len(sources))
	for _, s := range sources {
		out = append(out, *x.statuses[s.name])
	}
	return out
}
