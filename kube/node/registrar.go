package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/instrument"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/kube/internal/answers"
	"github.com/podwright/podwright/syncloop/nodehooks"
)

// Timing of the Node and its lease.
const (
	lookPeriod = 10 * time.Second // KN3
	callLimit  = 10 * time.Second // a call that takes longer has a dead connection (KN9)
	// silence is how long the Node's watch may send nothing: one from before a restored backup is silent forever.
	silence = 10 * time.Minute
)

// ErrTaken, wrapped in the error of the hook Register, says that another machine is the Node of
// that name. The engine repeats the hook, so the agent takes over once that machine's lease has
// expired.
var ErrTaken = errors.New("another machine is this Node")

// Registrar registers a Node, publishes its status and renews its lease. Make one with
// [New]. All methods are safe for concurrent use.
type Registrar struct {
	options Options
	// machine is what was detected about this machine.
	machine v1.NodeSystemInfo
	changed chan struct{}
	gone    chan struct{}
	first   chan struct{} // closed once registered
	store   cache.Store   // the Node as watched
	ahead   metric.Int64Gauge
	calls   *foreign.Calls

	mu sync.Mutex
	// uid is the UID of the agent's Node, empty while it is not registered.
	uid  types.UID
	left bool
	// runtime is what was last read from the runtime, published what was last published.
	runtime   runtimeFacts
	published *facts
	// former says that the Node shows the status of an agent of another kind.
	former bool
	// told are the conditions that were last published.
	told  []v1.NodeCondition
	lease *coordinationv1.Lease
	// theirs is the last renewal of another machine that is the Node, and since when it is known.
	theirs struct{ renewal, since time.Time }
	// written is the version of the Node with the last status: the watch may be behind it.
	written string
	// unpublished is why the last attempt to publish the status failed, nil if it did not.
	unpublished error
}

// New checks the options. It makes no call. The error joins all problems of the options.
func New(options Options) (*Registrar, error) {
	if err := options.complete(); err != nil {
		return nil, fmt.Errorf("kube/node: %w", err)
	}
	r := &Registrar{
		options: options, machine: completeInfo(options.Info, examineMachine("/")),
		changed: make(chan struct{}, 1), gone: make(chan struct{}), first: make(chan struct{}),
		store: cache.NewStore(cache.MetaNamespaceKeyFunc), calls: foreign.New(options.Clock),
	}
	set := instrument.New(options.Meter)
	r.ahead = set.Gauge("podwright_api_server_clock_ahead_seconds", "How far the API server's clock is ahead of this machine's; negative if it is behind.")
	return r, set.Err()
}

// Hooks returns the hooks for the engine's Config.NodeHooks.
func (r *Registrar) Hooks() nodehooks.Hooks {
	return nodehooks.Hooks{
		Register: r.register, PublishStatus: r.publish, RenewLease: r.renew, Changed: r.changed,
	}
}

// Registered is closed once the agent has registered for the first time. Only then should a source
// of pods start: before that, the API server lets the agent read none (KS2).
func (r *Registrar) Registered() <-chan struct{} { return r.first }

// Gone is closed when the Node was deleted and Options.Leave is set, and by [Registrar.Leave].
func (r *Registrar) Gone() <-chan struct{} { return r.gone }

// Leave has the effect of a deleted Node with Options.Leave. It is for an agent that was ended after its Node had
// been deleted, and before it had done what it does then. Call it before the first registration.
func (r *Registrar) Leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leave()
}

// leave ends the registrations. The lock is held.
func (r *Registrar) leave() {
	if !r.left {
		r.left = true
		close(r.gone)
	}
}

// nodeUID returns the UID of the agent's Node, empty while it is not registered.
func (r *Registrar) nodeUID() types.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.uid
}

// Object returns the Node as last watched, nil before that. It is shared: only read it.
func (r *Registrar) Object() *v1.Node {
	object, found, err := r.store.GetByKey(r.options.Name)
	if err != nil || !found {
		return nil
	}
	return object.(*v1.Node)
}

// signal makes the engine publish the status soon. It does not block.
func (r *Registrar) signal() {
	select {
	case r.changed <- struct{}{}:
	default: // already signaled
	}
}

// errUnanswered says that nothing came from the API server since a call began.
var errUnanswered = errors.New("the API server did not answer")

// within bounds a call to the API server. After a call that had no answer in time, the next one gets
// a new connection (KN9). A server that keeps telling the client to wait does answer: closing all
// connections would only give it more work.
func (r *Registrar) within(ctx context.Context, call func(ctx context.Context) error) error {
	limited, cancel := timing.WithTimeout(ctx, r.options.Clock, callLimit)
	defer cancel()
	limited, way := routed(limited)
	err := call(limited)
	var said apierrors.APIStatus
	switch late := limited.Err() != nil; {
	case err == nil || ctx.Err() != nil || errors.As(err, &said):
		return err
	case r.options.Skew != nil && !way.silent():
		return fmt.Errorf("not done after at most %s: %w", callLimit, err)
	case late:
		r.options.Reconnect()
		return fmt.Errorf("%w within %s: %w", errUnanswered, callLimit, err)
	}
	return fmt.Errorf("%w: %w", errUnanswered, err)
}

// get reads the Node from the API server. Without a revision the read is consistent.
func (r *Registrar) get(ctx context.Context) (node *v1.Node, err error) {
	err = r.within(ctx, func(ctx context.Context) error {
		node, err = r.options.Client.CoreV1().Nodes().Get(ctx, r.options.Name, metav1.GetOptions{})
		return err
	})
	return node, err
}

// confirmGone reads whether the agent's Node still exists, and records it if it does not. An API
// server that does not answer proves nothing.
func (r *Registrar) confirmGone(ctx context.Context) (bool, error) {
	uid := r.nodeUID()
	if uid == "" {
		return true, nil
	}
	found, err := r.get(ctx)
	switch {
	case err == nil && found.UID == uid:
		return false, nil
	case err != nil && !answers.NotFound(err):
		return false, err
	}
	r.noteGone(uid)
	return true, nil
}

func (r *Registrar) noteGone(uid types.UID) {
	r.mu.Lock()
	again := r.uid != uid
	if !again {
		r.uid, r.published, r.told, r.lease, r.written = "", nil, nil, nil, ""
		if r.options.Leave {
			r.leave()
		}
	}
	left := r.left
	r.mu.Unlock()
	if again {
		return
	}
	r.options.Logger.Info("The Node was deleted", "node", r.options.Name, "uid", uid, "leave", left)
	r.signal()
}

// hasLeft reports whether the agent has stopped registering.
func (r *Registrar) hasLeft() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left
}
