package podworkers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/podworkers/internal/machine"
	"github.com/podwright/podwright/runtime"
)

// call is one syncer call, with what it takes to cancel it.
type call struct {
	machine.Call

	// step is what the call waits for, entered since when in the machine's time.
	step    atomic.Uint32
	entered atomic.Int64

	// seen is the stamp of the syncer's reading of the pod after its last change; 0 if there is
	// none.
	seen atomic.Uint64

	mu    sync.Mutex
	cause error                   // set once cancelled
	stop  context.CancelCauseFunc // of the current context, if there is one
}

// newCall allocates a call for the machine.
func newCall() *machine.Call {
	c := &call{}
	c.Handle = c
	return &c.Call
}

// begin returns a fresh context for the call (X4).
func (c *call) begin(root context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, stop := context.WithCancelCause(context.WithValue(root, seenKey{}, &c.seen))
	c.mu.Lock()
	c.stop = stop
	why := c.cause
	c.mu.Unlock()
	if why != nil {
		stop(why)
	}
	return ctx, stop
}

// cancel ends the current context, or the one that begin is about to make.
func (c *call) cancel(why error) {
	c.mu.Lock()
	c.cause = why
	stop := c.stop
	c.mu.Unlock()
	if stop != nil {
		stop(why)
	}
}

// work makes calls until there is none to continue with.
func (w *Workers) work(c *call) {
	defer w.calls.Done()
	w.begun()
	defer func() {
		if c != nil { // the syncer called Goexit: this goroutine is lost
			w.spawn(w.finish(c, &machine.Result{Err: errGoexit, Failure: machine.FailurePanic, End: w.stamp()}))
		}
	}()
	for c != nil {
		c = w.attempt(c)
	}
}

// attempt gets the view and makes the call. It returns the call to continue with.
func (w *Workers) attempt(c *call) *call {
	ctx, stop := c.begin(w.root)
	defer stop(nil)
	var view *runtime.PodStatus
	if c.NeedsView {
		var next *call
		if view, next = w.view(ctx, c); next != c {
			return next
		}
	}
	result := machine.Result{}
	if c.Record {
		w.enter(c, stepRecord)
		if err := w.journal(ctx, c, c.Facts); err != nil {
			result.Err, result.Failure = err, machine.FailureJournal
			return w.finish(c, w.judge(ctx, &result))
		}
		result.Recorded, result.RecordedFacts = true, c.Facts
		w.enter(c, stepCall)
	}
	c.seen.Store(0)
	w.invoke(ctx, c, view, &result)
	result.End, result.Seen = w.end(c)
	w.recordEnd(ctx, c, &result)
	return w.finish(c, w.judge(ctx, &result))
}

// view returns a view newer than the previous call of the pod, and c; or, if
// the call cannot go on here, another call or nil.
func (w *Workers) view(ctx context.Context, c *call) (*runtime.PodStatus, *call) {
	if !c.Viewed {
		if view, ok := w.peek(c); ok {
			w.unseen.end(c.UID)
			return view, c
		}
		b := w.event(machine.EventStale)
		b.event.Call = &c.Call
		next, answer := w.apply(b, c)
		if !answer.Continue {
			return nil, next
		}
		w.spawn(next) // another call proceeds while this one waits
	}
	view, err := w.wait(ctx, c)
	if err != nil {
		result := machine.Result{Err: err, Failure: machine.FailureView}
		return nil, w.finish(c, w.judge(ctx, &result))
	}
	if !c.Viewed {
		b := w.event(machine.EventViewReady)
		b.event.Call = &c.Call
		if next, _ := w.apply(b, c); next != c {
			return nil, next
		}
	}
	copied := *view // the kubelet once wrote pod IPs into the shared one (V7)
	return &copied, c
}

// wait gets a view from the source.
func (w *Workers) wait(ctx context.Context, c *call) (view *runtime.PodStatus, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("wait for a view of the pod: %w", err)
		}
	}()
	defer recovered(&err)
	w.enter(c, stepView)
	defer w.enter(c, stepCall)
	began := w.options.Clock.Now()
	view, err = w.newView(ctx, c)
	w.waited(ctx, c, w.options.Clock.Since(began))
	if err == nil && view == nil {
		err = errNoView
	}
	return view, err
}

func (w *Workers) waited(ctx context.Context, c *call, d time.Duration) {
	defer w.harmless(c.UID, "measure")
	w.metrics.viewWait(context.WithoutCancel(ctx), d)
}

// journal makes facts durable.
func (w *Workers) journal(ctx context.Context, c *call, f Facts) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("record the state of the pod: %w", err)
		}
	}()
	defer recovered(&err)
	return w.options.Journal.Record(ctx, c.UID, f)
}

// recovered turns a panic into an error, so that it harms one pod only (L8).
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

var errNoView = errors.New("the status source returned neither a view nor an error")

// peek returns the newest view if it is new enough.
func (w *Workers) peek(c *call) (*runtime.PodStatus, bool) {
	if w.peeker == nil {
		return nil, false
	}
	view, err := w.peekAt(c.UID)
	if err != nil || c.After > 0 && view.Stamp <= c.After {
		return nil, false
	}
	copied := *view
	return &copied, true
}

// peekAt returns the newest view of a pod, whatever its age. The error says that there is none.
func (w *Workers) peekAt(uid types.UID) (view *runtime.PodStatus, err error) {
	err = errNoView // also after a panic
	defer w.harmless(uid, "look at the newest view")
	if view, found := w.peeker.Peek(uid); found != nil || view != nil {
		return view, found
	}
	return nil, errNoView
}

// harmless recovers a panic of the program's code outside of the pod's own calls: it is logged, and the rest goes on (L8).
func (w *Workers) harmless(uid types.UID, doing string) {
	if p := recover(); p != nil {
		w.options.Logger.Error(fmt.Errorf("%s: panic: %v\n%s", doing, p, debug.Stack()), "The workers go on without a function that panicked", "uid", uid)
	}
}

// invoke makes the syncer call. A panic becomes an error (L8).
func (w *Workers) invoke(ctx context.Context, c *call, view *runtime.PodStatus, result *machine.Result) {
	defer func() {
		if p := recover(); p != nil {
			result.Err = foreign.Panicked("the syncer", p)
			result.Failure = machine.FailurePanic
		}
	}()
	switch c.Phase {
	case machine.Setup:
		result.SyncResult, result.Err = w.syncer.SyncPod(ctx, c.Type, c.Pod, c.Mirror, view)
	case machine.Terminating:
		result.Err = w.syncer.SyncTerminatingPod(ctx, c.Pod, view, c.Grace, c.StatusFunc)
	case machine.TerminatingRuntime:
		result.Err = w.syncer.SyncTerminatingRuntimePod(ctx, c.Running)
	case machine.Terminated:
		result.Err = w.syncer.SyncTerminatedPod(ctx, c.Pod, view)
	}
}

// recordEnd makes the end of a phase durable before the machine knows it (L12).
func (w *Workers) recordEnd(ctx context.Context, c *call, result *machine.Result) {
	if w.options.Journal == nil || result.Err != nil || c.Phase == machine.TerminatingRuntime ||
		c.Phase == machine.Setup && !result.Terminal {
		return
	}
	w.enter(c, stepRecord)
	after := c.Facts
	after.TerminationRequested = true
	if after.Amend == nil {
		after.Amend = result.Amend
	}
	after.Terminated = c.Phase != machine.Setup
	after.Finished = c.Phase == machine.Terminated
	// The call has succeeded, whatever has happened to its context since.
	if err := w.journal(context.WithoutCancel(ctx), c, after); err != nil {
		result.Err, result.Failure = err, machine.FailureJournal
		return
	}
	result.Recorded, result.RecordedFacts = true, after
}

// judge classifies the error of a result (section 12). An error that panics when it is looked at, such as a nil pointer
// of an error type, is a panic of the call.
func (w *Workers) judge(ctx context.Context, result *machine.Result) *machine.Result {
	if result.Err == nil {
		if at := result.RequeueAt; !at.IsZero() {
			result.Requeue, result.RetryAfter = true, at.Sub(w.options.Clock.Now())
		}
		return result
	}
	judged := *result
	var unreadable error
	func() {
		defer func() {
			if p := recover(); p != nil {
				unreadable = foreign.Panicked("its method", p)
			}
		}()
		w.classify(ctx, &judged)
	}()
	if unreadable != nil {
		judged = *result
		judged.Err, judged.Failure = fmt.Errorf("read the error of the call, of type %T: %w", result.Err, unreadable), machine.FailurePanic
	}
	return &judged
}

// classify reads everything that an error may say.
func (w *Workers) classify(ctx context.Context, result *machine.Result) {
	err := result.Err
	text := err.Error()
	if why := context.Cause(ctx); why != nil {
		result.Canceled = errors.Is(err, why) || errors.Is(err, context.Canceled) || errors.Is(err, runtime.ErrCanceled)
	}
	if at, ok := earliestRetry(err); ok {
		result.Retry, result.RetryAfter = machine.RetryExplicit, at.Sub(w.options.Clock.Now())
	} else if errors.Is(err, ErrNetworkNotReady) || strings.Contains(text, ErrNetworkNotReady.Error()) {
		result.Retry = machine.RetryNetwork
	}
	result.RetryWithin = retryWithin(err)
}

// retryWithin returns the smallest bound of the back-off that an error in the tree of err sets,
// 0 if none does.
func retryWithin(err error) (within time.Duration) {
	if r, ok := err.(interface{ RetryWithin() time.Duration }); ok { //nolint:errorlint // the walk visits every node
		within = max(r.RetryWithin(), 0)
	}
	for _, e := range causes(err) {
		if w := retryWithin(e); w > 0 && (within == 0 || w < within) {
			within = w
		}
	}
	return within
}

// causes returns what an error wraps.
func causes(err error) (out []error) {
	switch u := err.(type) { //nolint:errorlint // of this node
	case interface{ Unwrap() error }:
		out = []error{u.Unwrap()}
	case interface{ Unwrap() []error }:
		out = u.Unwrap()
	}
	return slices.DeleteFunc(slices.Clone(out), func(e error) bool { return e == nil })
}

// earliestRetry returns the earliest RetryAt in the tree of err. Zero times are
// ignored.
func earliestRetry(err error) (earliest time.Time, found bool) {
	if r, ok := err.(interface{ RetryAt() time.Time }); ok { //nolint:errorlint // the walk visits every node
		earliest = r.RetryAt()
		found = !earliest.IsZero()
	}
	for _, e := range causes(err) {
		if at, ok := earliestRetry(e); ok && (!found || at.Before(earliest)) {
			earliest, found = at, true
		}
	}
	return earliest, found
}

// finish tells the machine that a call ended.
func (w *Workers) finish(c *call, result *machine.Result) *call {
	if result.Err != nil && !result.Canceled {
		w.options.Logger.V(1).Info("syncer call failed", "uid", c.UID, "phase", c.Phase.String(), "error", result.Err.Error())
	}
	w.lacking.note(c.UID, result.Err != nil && result.RetryWithin > 0 && result.RetryWithin < math.MaxInt64, w.sinceOrigin)
	b := w.event(machine.EventDone)
	b.event.Call, b.event.Result = &c.Call, *result
	next, _ := w.apply(b, c)
	return next
}

// end returns the stamp that a view must exceed to show what the call did (V3), and whether the
// syncer has read such a view.
func (w *Workers) end(c *call) (end runtime.Stamp, seen bool) {
	if read := runtime.Stamp(c.seen.Load()); read > 0 && w.options.Views != nil {
		return read - 1, true
	}
	return w.stamp(), false
}

// stamp draws the end of a call (V3).
func (w *Workers) stamp() runtime.Stamp {
	if w.options.Views == nil {
		return 0
	}
	return w.options.Views.Stamp()
}
