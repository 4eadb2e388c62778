package podworkers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/podworkers/internal/machine"
)

// Workers holds one record per pod UID and calls the [PodSyncer]. All methods are
// safe for concurrent use; none but Run, Stop, KillPod and WaitFinished waits for
// a call or for anything else that may take time.
type Workers struct {
	syncer  PodSyncer
	options Options
	peeker  StatusPeeker
	lister  RunningLister
	metrics *instruments
	lacking lacking
	unseen  unseen
	looks   looks
	origin  time.Time // the machine's time 0

	mu       sync.Mutex
	machine  *machine.Machine
	elapsed  time.Duration // since origin, never going back
	lastRaw  time.Duration // the same, by the clock
	armed    time.Duration // when Run looks at the timers again; -1: now
	state    runState
	root     context.Context             // parent of every call's context; set by Run
	dispatch machine.Event               // EventDispatch, kept so that it is made once
	idle     chan struct{}               // closed once stopping and no call is in flight
	waiting  map[chan struct{}]types.UID // calls of WaitFinished

	kick     chan struct{}  // wakes Run to arm its timer again
	done     chan struct{}  // closed when everything has ended
	starting atomic.Int32   // goroutines on their way to begin; see spawn
	crowded  atomic.Bool    // a ready pod waits for its turn
	calls    sync.WaitGroup // goroutines making calls
	batches  sync.Pool      // of *batch
}

// runState is the stage in the life of the Workers.
type runState uint8

const (
	notRun runState = iota
	running
	ended
)

// New returns workers that call syncer. A nil syncer does nothing and succeeds.
// Updates are accepted from now on; calls begin with [Workers.Run].
func New(syncer PodSyncer, options Options) *Workers {
	if syncer == nil {
		syncer = PodSyncerFuncs{}
	}
	options.setDefaults()
	w := &Workers{
		syncer:   syncer,
		options:  options,
		origin:   options.Clock.Now(),
		armed:    -1,
		idle:     make(chan struct{}),
		waiting:  map[chan struct{}]types.UID{},
		kick:     make(chan struct{}, 1),
		done:     make(chan struct{}),
		dispatch: machine.Event{Kind: machine.EventDispatch},
		batches:  sync.Pool{New: func() any { return new(batch) }},
	}
	w.peeker, _ = options.Views.(StatusPeeker)
	w.lister, _ = options.Views.(RunningLister)
	w.machine = machine.New(options.machine(w.peeker != nil || w.lister != nil))
	w.metrics = newInstruments(options.Meter)
	return w
}

// Run makes the calls. It blocks until ctx ends or [Workers.Stop] is called, and
// returns only when every call and goroutine it started has ended. The end of
// ctx acts like a Stop with [Detach], with [Options.DrainTimeout] as its limit.
// The calls get the values of ctx, but its end does not cancel them by itself.
//
// It returns nil after a stop, an error if it was called before, and
// [ErrStopped] if Stop was.
func (w *Workers) Run(ctx context.Context) error {
	// Calls are cancelled one by one. Their parent never ends, so they need not
	// register with it.
	if err := w.begin(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	withdraw := w.export()
	w.apply(w.event(machine.EventRun), nil)
	w.loop(ctx)
	w.calls.Wait()
	withdraw()
	close(w.done)
	return nil
}

func (w *Workers) begin(root context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch w.state {
	case running:
		return errRunning
	case ended:
		return ErrStopped
	}
	w.state, w.root = running, root
	return nil
}

// loop handles what becomes due, until the end.
func (w *Workers) loop(ctx context.Context) {
	timer := w.options.Clock.NewTimer(time.Hour)
	defer timer.Stop()
	ctxDone := ctx.Done()
	var drained <-chan time.Time
	for {
		timing.Restart(timer, w.arm())
		if w.overdue() {
			w.apply(w.event(machine.EventTick), nil)
			continue
		}
		select {
		case <-w.idle:
			return
		case <-ctxDone:
			ctxDone = nil
			w.stop(Detach)
			limit := w.options.Clock.NewTimer(w.options.DrainTimeout)
			defer limit.Stop()
			drained = limit.C()
		case <-drained:
			drained = nil
			w.stop(Now)
		case <-timer.C():
			w.apply(w.event(machine.EventTick), nil)
		case <-w.kick:
		}
	}
}

// arm returns how long to wait for what is due next; an hour if nothing is.
func (w *Workers) arm() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	w.armed = now + time.Hour
	if due, ok := w.machine.NextDue(); ok {
		w.armed = min(w.armed, max(due, now))
	}
	return w.armed - now
}

// overdue reports whether something became due before the timer was set: a fake
// clock that was stepped at that moment does not fire it.
func (w *Workers) overdue() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	due, ok := w.machine.NextDue()
	return ok && due <= w.now()
}

// now returns the time since origin. It stands still while the clock goes back, so that
// scheduled events stay as far ahead as they were. The lock is held.
func (w *Workers) now() time.Duration {
	raw := w.options.Clock.Since(w.origin)
	switch {
	case raw > w.lastRaw:
		w.elapsed += raw - w.lastRaw
	case raw < w.lastRaw:
		w.rearm()
	}
	w.lastRaw = raw
	return w.elapsed
}

// sinceOrigin is now for callers without the lock.
func (w *Workers) sinceOrigin() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now()
}

// rearm wakes Run.
func (w *Workers) rearm() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// reading is one moment by both clocks.
type reading struct {
	wall    time.Time
	elapsed time.Duration
}

// read reads the clocks. The lock is held.
func (w *Workers) read() reading { return reading{wall: w.options.Clock.Now(), elapsed: w.now()} }

// at returns a machine time as the wall clock counts now. The clock may have been set, or the machine
// suspended, since the origin.
func (r reading) at(t time.Duration) time.Time { return r.wall.Add(t - r.elapsed) }

// StopError says which calls did not end in time, after they were cancelled.
type StopError struct {
	// UIDs of the pods, sorted.
	UIDs []types.UID
	// Err is why the wait ended.
	Err error
}

// Error names the pods.
func (e *StopError) Error() string {
	return fmt.Sprintf("%d syncer calls ignore their cancellation, pods %v: %v", len(e.UIDs), e.UIDs, e.Err)
}

// Unwrap returns Err.
func (e *StopError) Unwrap() error { return e.Err }

// Stop ends the workers as mode says. From then on no update is
// accepted ([Outcome.Accepted]), and a KillPod that waits gets [ErrStopped]. Stop returns nil once
// every call has ended: no syncer call runs afterwards. With Terminate, it returns
// nil only if every pod has finished, and an error that wraps [ErrStopped] if the
// workers ended otherwise: call it before the context of Run ends.
//
// When ctx ends first, every call is cancelled, and Stop waits for another
// [Options.StuckAfter] before it gives up with a [*StopError]; Run then continues
// to wait. If the calls end in that time, Stop returns nil for Detach and Now, and
// the cause of ctx for Terminate, because pods may still be running.
func (w *Workers) Stop(ctx context.Context, mode StopMode) error {
	if w.stop(mode) {
		return w.left(mode)
	}
	select {
	case <-w.done:
		return w.left(mode)
	case <-ctx.Done():
	}
	w.stop(Now)
	limit := w.options.Clock.NewTimer(w.options.StuckAfter)
	defer limit.Stop()
	select {
	case <-w.done:
		if mode == Terminate {
			return fmt.Errorf("terminate all pods: %w", context.Cause(ctx))
		}
		return nil
	case <-limit.C():
		return &StopError{UIDs: w.inFlight(), Err: context.Cause(ctx)}
	}
}

// left returns an error if pods were to be terminated, and workers that have ended left some.
func (w *Workers) left(mode StopMode) error {
	if mode != Terminate {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.machine.AllFinished() {
		return fmt.Errorf("terminate all pods: %w before all of them had finished", ErrStopped)
	}
	return nil
}

// stop tells the machine, and reports whether everything has ended because
// nothing ever ran.
func (w *Workers) stop(mode StopMode) bool {
	b := w.event(machine.EventStop)
	b.event.Stop.Mode = mode
	if d := w.options.TerminateGrace; d > 0 {
		seconds := int64((d + time.Second - 1) / time.Second)
		b.event.Stop.Grace = &seconds
	}
	w.mu.Lock()
	never := w.state == notRun
	if never {
		w.state = ended
		b.event.Stop.Mode = machine.StopNow
	}
	w.mu.Unlock()
	w.apply(b, nil)
	if never {
		close(w.done)
	}
	return never
}

func (w *Workers) inFlight() []types.UID {
	w.mu.Lock()
	defer w.mu.Unlock()
	uids := w.machine.Calls()
	slices.Sort(uids)
	return uids
}

var errGoexit = errors.New("the syncer ended its goroutine")
