package pleg

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// Errors of a [Generator], to be tested with errors.Is.
var (
	// ErrRunning: Run was called while another Run is active.
	ErrRunning = errors.New("pleg: already running")
	// ErrStopped: Run ended while the caller waited for a reading.
	ErrStopped = errors.New("pleg: stopped")
)

// Generator reads the runtime and keeps one status per pod. Make one with [New].
//
// Every method may be called from any number of goroutines, before, during and
// after Run. Only Run, Relist, ReadNow, ListRunning and GetNewerThan block, and
// each of them returns soon after its context ends.
type Generator struct {
	options Options
	view    *runtime.View
	cache   *cache
	subs    subscribers
}

// New returns a generator that reads from reader. It makes no call and starts
// nothing. The error names every problem of the options.
func New(reader runtime.Reader, options Options) (*Generator, error) {
	options, err := options.complete()
	if reader == nil && options.View == nil {
		err = errors.Join(errors.New("no reader and no View"), err)
	}
	if err != nil {
		return nil, fmt.Errorf("pleg options: %w", err)
	}
	g := &Generator{options: options, view: options.View, cache: newCache()}
	if g.view == nil {
		g.view = runtime.NewView(reader, runtime.ViewOptions{OwnerID: options.OwnerID, Sequence: options.Sequence, Clock: options.Clock})
	}
	return g, nil
}

// Run relists every period, serves refreshes and watches the event stream until
// ctx ends, which is the only way it ends; it then returns nil. Every goroutine
// it started has ended by then, except calls that ignore their context for
// longer than Options.WriteOffAfter; [Generator.Health] counts those. A second
// Run at the same time fails with [ErrRunning]; one after the other is fine.
func (g *Generator) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Stamp draws a stamp from the generator's sequence: what is read later carries
// a larger one.
func (g *Generator) Stamp() runtime.Stamp { return g.view.Stamp() }

// Get returns the last good status of the pod and, if the latest reading
// failed, the error of that. A pod without an entry has an empty status that
// carries its UID. Get never blocks. The status is shared: it must not be
// modified (C2, C9).
func (g *Generator) Get(uid types.UID) (*runtime.PodStatus, error) { return g.cache.get(uid) }

// GetNewerThan waits until what is known of the pod is newer than after, and
// returns it: the status as it was read then, or earlier and seen unchanged
// then; an empty status with the UID if the runtime does not know the pod; or
// the error of the reading, if that failed (C3-C6). It returns at once if that
// is so already, and with the cause of ctx when ctx ends first. The status is
// shared: it must not be modified.
func (g *Generator) GetNewerThan(ctx context.Context, uid types.UID, after runtime.Stamp) (*runtime.PodStatus, error) {
	return g.cache.getNewerThan(ctx, uid, after)
}

// Refresh asks for a look at one pod as soon as possible and returns at once.
// Requests for one pod merge; a pod the runtime does not know is harmless (D1,
// D9). Call it after every own runtime call for the pod.
func (g *Generator) Refresh(uid types.UID) {}

// Reinspect makes the next relist read the pod in full even if its containers
// look unchanged (R13), and deliver PodSync if they are.
func (g *Generator) Reinspect(uid types.UID) {}

// Hold keeps readings of the pod back until Release: call it before a sequence of
// runtime calls for the pod, so that no state in between is published (D8).
// Holds nest. [Generator.ReadNow] and [Generator.Publish] pass a hold.
func (g *Generator) Hold(uid types.UID) {}

// Release ends one Hold. With the last one, what was asked for or noticed
// meanwhile is served by one refresh.
func (g *Generator) Release(uid types.UID) {}

// Report says that the caller saw a container or sandbox of the pod in this
// state, usually because its own call has just put it there. If the next refresh
// shows less (say created after a successful start) it is repeated once, 100 ms
// later, before it is published (D7).
func (g *Generator) Report(uid types.UID, id string, state runtime.State) {}

// Publish stores a status the caller has just read, as if it had been read here,
// and reports whether it was newer than what is known (B9, C7). The status must
// come from a [runtime.View] on the same sequence and must not be modified
// afterwards.
func (g *Generator) Publish(status *runtime.PodStatus) bool { return false }

// ReadNow reads the pod in full, now, publishes the reading in the cache, and
// returns it. Its list began after the call did. A pod the runtime does not
// know gives an empty status with its UID. Use it after own stop calls.
func (g *Generator) ReadNow(ctx context.Context, uid types.UID) (*runtime.PodStatus, error) {
	return nil, ErrStopped
}

// ListRunning reads the runtime and returns the pods with a ready sandbox or a
// running container, sorted by UID. The reading does not go into the cache. It
// is for housekeeping, which must not act on an old list.
func (g *Generator) ListRunning(ctx context.Context) ([]*runtime.Pod, error) { return nil, nil }

// Subscribe adds a subscriber. It gets what changes from now on; subscribe
// before Run to miss nothing, then the first relist delivers every pod (R14).
// Close the subscription when done.
func (g *Generator) Subscribe() *Subscription { return g.subs.join() }

// Synced reports whether a complete relist has been done: every pod the runtime
// knew then has been read at least once.
func (g *Generator) Synced() bool { return false }

// Relist does one relist and waits until every pod that it showed changed has
// been read, or ctx ends. Without Run this is the manual mode: the caller's
// goroutine drives everything, nothing happens between two calls (B10). With
// Run it makes a relist due at once.
func (g *Generator) Relist(ctx context.Context) error { return nil }

// ChangedSince returns the pods whose cached status was written or removed
// after version; 0 means ever (C12).
func (g *Generator) ChangedSince(version uint64) Changes { return g.cache.changedSince(version) }
