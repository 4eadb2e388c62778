package fake

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// Runtime is a fake container runtime and image store. Make one with [New]. All
// methods are safe for concurrent use.
type Runtime struct {
	options Options
	clock   clock.Clock

	// mu guards everything below. It is never held during I/O, a callback or a
	// wait.
	mu         sync.Mutex
	now        time.Time // of the last runDue; never goes back
	due        dueHeap
	dueSeq     int
	ledger     ledger
	faults     []*injected
	down       bool
	downCh     chan struct{} // closed by SetDown(true)
	conditions map[string]bool

	nextID      int
	lastCreated time.Time
	sandboxes   registry[*sandbox]
	containers  registry[*container]
	reserved    map[string]string // name of a sandbox or container to its ID
	facts       map[containerKey]*Facts
	images      []*storedImage
	addresses   addressPool

	streams []*stream
	onEvent func(Event) Delivery

	logs logQueue
}

var (
	_ cri.RuntimeService = (*Runtime)(nil)
	_ cri.ImageService   = (*Runtime)(nil)
	_ cri.EventStreamer  = (*Runtime)(nil)
)

// containerKey names a container across its restarts.
type containerKey struct {
	pod  types.UID
	name string
}

// New returns a fake runtime. It panics if the clock shows a time that the CRI cannot express.
func New(options Options) *Runtime {
	if options.Name == "" {
		options.Name = "fake"
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.Registry == nil {
		options.Registry = func(string, *runtimeapi.AuthConfig) Pull { return Pull{} }
	}
	if !options.PodIPs.IsValid() {
		options.PodIPs = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 88, 0, 0}), 16)
	}
	f := &Runtime{
		options:    options,
		clock:      options.Clock,
		ledger:     ledger{limit: options.MaxCalls, numbers: map[Method]int{}},
		downCh:     make(chan struct{}),
		conditions: map[string]bool{"RuntimeReady": true, "NetworkReady": true},
		sandboxes:  newRegistry[*sandbox](),
		containers: newRegistry[*container](),
		reserved:   map[string]string{},
		facts:      map[containerKey]*Facts{},
		addresses:  addressPool{prefix: options.PodIPs.Masked(), used: map[netip.Addr]bool{}},
	}
	f.now = f.clock.Now()
	if !f.now.After(time.Unix(0, 0)) {
		panic(fmt.Sprintf("fake: Options.Clock is at %v: in the CRI, a time is after 1970 began, and 0 means that a container was never started", f.now))
	}
	for _, image := range options.Images {
		f.storeImage(image)
	}
	return f
}

// step is what one call does. T is its answer.
type step[T any] struct {
	// before waits or asks callbacks, without the lock. Nil does nothing.
	before func(ctx context.Context) error
	// effect changes and reads the state, under the lock, after everything due is
	// done.
	effect func() (T, error)
	// after waits for what effect began, without the lock. Nil does nothing.
	after func(ctx context.Context, answer T) (T, error)
	// filter applies Effect.Keep to the answer of a list. Nil if the answer is not a list.
	filter func(answer T, keep func(id string) bool) T
}

// do records a call, applies faults and runs its step.
func do[T any](ctx context.Context, f *Runtime, call Call, s step[T]) (T, error) {
	f.mu.Lock()
	f.runDue()
	f.identify(&call)
	record := f.ledger.begin(call, f.now)
	call = *record
	faults := f.faults
	ctx = context.WithValue(ctx, daemonKey{}, f.downCh)
	f.mu.Unlock()

	var answer T
	// A call that does not reach the runtime meets no fault.
	err := usable(ctx)
	if err == nil {
		answer, err = run(ctx, f, f.effectOn(faults, call), s)
	}
	// The exit code of a command is an answer, not a failure of the runtime,
	// and some callers test its type without unwrapping.
	if _, exited := err.(*runtime.ExitError); err != nil && !exited {
		err = fmt.Errorf("fake runtime: %s: %w", call.Method, err)
	}

	f.mu.Lock()
	f.runDue()
	if err == nil {
		switch id := any(answer).(type) {
		case *sandbox:
			record.SandboxID = id.id
		case *container:
			record.ContainerID = id.id
		}
	}
	f.ledger.end(record, f.now, err)
	f.mu.Unlock()
	f.logs.flush(f)
	return answer, err
}

// run applies an effect to a step.
func run[T any](ctx context.Context, f *Runtime, e Effect, s step[T]) (T, error) {
	var none T
	if e.Delay > 0 {
		if err := f.pause(ctx, e.Delay); err != nil {
			return none, err
		}
	}
	if e.Hang && !e.Done {
		return none, f.hang(ctx)
	}
	if e.Err != nil && !e.Done {
		return none, e.Err
	}
	if s.before != nil {
		if err := s.before(ctx); err != nil {
			return none, err
		}
	}
	if e.Hang {
		err := f.hang(ctx)
		f.locked(func() {
			f.at(f.now.Add(e.Late), func() {
				if !timing.Ended(daemonOf(ctx)) {
					_, _ = s.effect()
				}
			})
			f.runDue()
		})
		return none, err
	}
	var answer T
	var err error
	f.locked(func() {
		// The runtime may have gone down while before waited.
		if timing.Ended(daemonOf(ctx)) {
			err = errDown
			return
		}
		answer, err = s.effect()
	})
	if err == nil && s.after != nil {
		answer, err = s.after(ctx, answer)
	}
	if err != nil {
		return answer, err
	}
	if e.Err != nil {
		return none, e.Err
	}
	if e.Keep != nil && s.filter != nil {
		answer = s.filter(answer, e.Keep)
	}
	return answer, nil
}

// locked runs fn under the lock after doing what is due.
func (f *Runtime) locked(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runDue()
	fn()
}

// errDown is what a call gets during which the runtime goes down.
var errDown = fmt.Errorf("the runtime does not answer: %w", runtime.ErrUnavailable)

// daemonKey is the key of daemonOf in a context.
type daemonKey struct{}

// daemonOf returns what is closed when the daemon stops that received the call with this context. Whatever
// comes after it, the call is not carried out any more.
func daemonOf(ctx context.Context) <-chan struct{} {
	stopped, _ := ctx.Value(daemonKey{}).(chan struct{})
	return stopped
}

// usable returns why a call cannot even begin.
func usable(ctx context.Context) error {
	if err := contextError(ctx); err != nil {
		return err
	}
	if timing.Ended(daemonOf(ctx)) {
		return runtime.ErrNotSent
	}
	return nil
}

// contextError returns the classified error of a context that has ended, nil while
// it has not.
func contextError(ctx context.Context) error {
	err := ctx.Err()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", runtime.ErrDeadline, err)
	default:
		return fmt.Errorf("%w: %w", runtime.ErrCanceled, err)
	}
}

// pause waits for d on the clock.
func (f *Runtime) pause(ctx context.Context, d time.Duration) error {
	f.mu.Lock()
	end := f.now.Add(d)
	f.mu.Unlock()
	return f.await(ctx, func() (bool, time.Time, <-chan struct{}) {
		return !f.now.Before(end), end, nil
	})
}

// hang waits until the context ends or the runtime goes down.
func (f *Runtime) hang(ctx context.Context) error {
	return f.await(ctx, func() (bool, time.Time, <-chan struct{}) { return false, time.Time{}, nil })
}

// await waits until check is true. check runs under the lock after everything due
// is done; if false it returns what can make it true: a moment (zero for none) and
// a channel that is closed (nil for none).
func (f *Runtime) await(ctx context.Context, check func() (done bool, next time.Time, changed <-chan struct{})) error {
	stopped := daemonOf(ctx)
	for {
		f.mu.Lock()
		f.runDue()
		done, next, changed := check()
		f.mu.Unlock()
		if done {
			return nil
		}
		due, stop := timing.Alarm(f.clock, next)
		select {
		case <-due:
		case <-changed:
		case <-ctx.Done():
		case <-stopped:
		}
		stop()
		if err := contextError(ctx); err != nil {
			return err
		}
		if timing.Ended(stopped) {
			return errDown
		}
	}
}

// dueItem is something that happens at a moment.
type dueItem struct {
	at  time.Time
	seq int // first scheduled, first done
	do  func()
}

// dueHeap orders moments.
type dueHeap []dueItem

func (h dueHeap) Len() int { return len(h) }
func (h dueHeap) Less(i, j int) bool {
	return h[i].at.Before(h[j].at) || h[i].at.Equal(h[j].at) && h[i].seq < h[j].seq
}
func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)   { *h = append(*h, x.(dueItem)) }
func (h *dueHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = dueItem{}
	*h = old[:len(old)-1]
	return last
}

// at schedules do, which runs under the lock with f.now being the moment, or a
// later one if the moment has passed. do must check that it still applies.
func (f *Runtime) at(moment time.Time, do func()) {
	f.dueSeq++
	heap.Push(&f.due, dueItem{at: moment, seq: f.dueSeq, do: do})
}

// runDue does everything that is due, in order. The lock must be held. Meanwhile f.now
// moves from moment to moment, so that each thing is stamped with its own.
func (f *Runtime) runDue() {
	now := f.clock.Now()
	for len(f.due) > 0 && !f.due[0].at.After(now) {
		item := heap.Pop(&f.due).(dueItem)
		if item.at.After(f.now) {
			f.now = item.at
		}
		item.do()
	}
	if now.After(f.now) {
		f.now = now
	}
}

// creationTime returns the present, but never the same moment twice.
func (f *Runtime) creationTime() time.Time {
	t := f.now
	if !t.After(f.lastCreated) {
		t = f.lastCreated.Add(time.Nanosecond)
	}
	f.lastCreated = t
	return t
}

// identify fills in what a call is about from the IDs it carries.
func (f *Runtime) identify(c *Call) {
	if ct := f.containers.byID[c.ContainerID]; ct != nil {
		c.Container, c.SandboxID = ct.name(), ct.sandbox.id
	}
	if s := f.sandboxes.byID[c.SandboxID]; s != nil {
		c.PodUID, c.Pod = s.uid(), s.config.GetMetadata().GetName()
	}
}
