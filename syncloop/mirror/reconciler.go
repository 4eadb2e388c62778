package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/timing"
)

// Times of mirror pods.
const (
	// nodePollMin and nodePollMax bound the pause between two checks for a node that is not known yet.
	nodePollMin = 100 * time.Millisecond
	nodePollMax = 5 * time.Second
	// retryMin and retryMax bound the pause after a refusal by the API.
	retryMin = time.Second
	retryMax = 30 * time.Second
	// callTimeout bounds one call of the client.
	callTimeout = 30 * time.Second
)

// Options configures a [Reconciler].
type Options struct {
	// Client is the API. Nil: there are no mirror pods, and the reconciler does nothing
	// (MC3).
	Client Client
	// Node returns the node that owns the mirror pods. Required with a client.
	Node NodeGetter
	// Clock is the real clock if nil.
	Clock clock.WithTicker
	// Logger logs refusals by the API; it is silent if zero.
	Logger logr.Logger
}

// Reconciler brings mirror pods into line with static pods, on its own goroutine.
// Make one with [New]; all methods are safe for concurrent use, and only Run and
// Delete block.
type Reconciler struct {
	options Options
	kick    chan struct{}

	mu sync.Mutex
	// wanted holds the static pods to look at; order has those first that have waited longest for
	// an attempt, so that one whose calls hang delays the others by one attempt only.
	wanted map[types.UID]*wish
	order  []types.UID
	// orphans are mirror pods that have to go, in the order in which they were named.
	orphans []types.NamespacedName
	calls   chan struct{} // one call of the client at a time
}

// wish is one static pod whose mirror needs a look.
type wish struct {
	static, mirror *v1.Pod
	at             time.Time // not before; zero means now
	delay          time.Duration
	// node: it waits for the node to be known.
	node bool
}

// New returns a reconciler, or an error about the options.
func New(options Options) (*Reconciler, error) {
	if options.Client != nil && options.Node == nil {
		return nil, errors.New("mirror: a client needs Node: mirror pods are owned by their node")
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	return &Reconciler{options: options, kick: make(chan struct{}, 1), wanted: map[types.UID]*wish{}, calls: make(chan struct{}, 1)}, nil
}

// Want reports the mirror pod that a setup round of a static pod has found, nil if
// none (MC4). It returns at once. The pods are read-only.
func (r *Reconciler) Want(static, mirror *v1.Pod) {
	r.keep(types.NamespacedName{Namespace: static.Namespace, Name: static.Name})
	if r.options.Client == nil || mirror != nil && matches(static, mirror) {
		r.Forget(static.UID)
		return
	}
	r.mu.Lock()
	w := r.wanted[static.UID]
	if w == nil {
		w = &wish{}
		r.wanted[static.UID] = w
		r.order = append(r.order, static.UID)
	}
	w.static, w.mirror = static, mirror
	r.mu.Unlock()
	r.wake()
}

// Forget drops the wish for a static pod, which has ended.
func (r *Reconciler) Forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.wanted[uid]; ok {
		delete(r.wanted, uid)
		r.order = slices.DeleteFunc(r.order, func(u types.UID) bool { return u == uid })
	}
}

// Orphaned asks for the deletion of the mirror pod of this name: its static pod is gone
// (MC7). It returns at once. A failure is logged, and the caller asks again. A name that a static
// pod has again is left alone: its mirror pod may be the new one.
func (r *Reconciler) Orphaned(name types.NamespacedName) {
	if r.options.Client == nil {
		return
	}
	r.mu.Lock()
	if !slices.Contains(r.orphans, name) && !r.wants(name) {
		r.orphans = append(r.orphans, name)
	}
	r.mu.Unlock()
	r.wake()
}

// wants reports whether a static pod of this name needs a look. The lock is held.
func (r *Reconciler) wants(name types.NamespacedName) bool {
	for _, w := range r.wanted {
		if w.static.Namespace == name.Namespace && w.static.Name == name.Name {
			return true
		}
	}
	return false
}

// keep withdraws what Orphaned asked for.
func (r *Reconciler) keep(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.orphans = slices.DeleteFunc(r.orphans, func(n types.NamespacedName) bool { return n == name })
}

// deleteOrphan deletes one mirror pod without a static pod, and reports whether there was one.
func (r *Reconciler) deleteOrphan(ctx context.Context) bool {
	r.mu.Lock()
	if len(r.orphans) == 0 {
		r.mu.Unlock()
		return false
	}
	name := r.orphans[0]
	r.orphans = r.orphans[1:]
	r.mu.Unlock()
	r.Delete(ctx, name.Namespace, name.Name, "")
	return true
}

// NodeKnown reports that the node may be known now: the reconciler looks at once at the
// mirror pods that wait for it (MC6). Without NodeKnown that takes up to 5 s.
func (r *Reconciler) NodeKnown() { r.wake() }

func (r *Reconciler) wake() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// Run serves until ctx ends, and then returns nil. It may be called only once.
func (r *Reconciler) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		deleted := r.deleteOrphan(ctx) // one per turn, so that many delay no mirror pod
		uid, w, at := r.next(r.options.Clock.Now())
		if w != nil {
			r.done(uid, w, r.reconcile(ctx, w))
		}
		if w != nil || deleted {
			continue
		}
		due, stop := timing.Alarm(r.options.Clock, at)
		select {
		case <-ctx.Done():
		case <-r.kick:
		case <-due:
		}
		stop()
	}
	return nil
}

// next returns a wish that is due, or the time of the next one, zero if there is none.
func (r *Reconciler) next(now time.Time) (types.UID, *wish, time.Time) {
	ready := r.nodeReady() // the caller's code must run without the lock
	r.mu.Lock()
	defer r.mu.Unlock()
	var at time.Time
	for _, uid := range r.order {
		w := r.wanted[uid]
		if !w.at.After(now) || w.node && ready {
			copied := *w
			return uid, &copied, time.Time{}
		}
		if at.IsZero() || w.at.Before(at) {
			at = w.at
		}
	}
	return "", nil, at
}

// nodeReady reports whether mirror pods can have an owner.
func (r *Reconciler) nodeReady() bool {
	if r.options.Client == nil {
		return false
	}
	node := r.options.Node()
	return node != nil && node.UID != "" && node.DeletionTimestamp == nil
}

// done records the result, and logs an error that the API returned. It does so without the lock: a logger that blocks
// must not hold up Want, Forget and Orphaned, which return at once.
func (r *Reconciler) done(uid types.UID, tried *wish, err error) {
	if delay := r.record(uid, tried, err); delay > 0 {
		r.options.Logger.Error(err, "Mirror pod", "namespace", tried.static.Namespace, "name", tried.static.Name, "retryAfter", delay)
	}
}

// record records the result, and returns the pause after an error of the API, otherwise 0. A pod that was wanted again
// meanwhile gets another look.
func (r *Reconciler) record(uid types.UID, tried *wish, err error) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.wanted[uid]
	if w == nil {
		return 0
	}
	r.order = slices.DeleteFunc(r.order, func(u types.UID) bool { return u == uid })
	now := r.options.Clock.Now()
	switch {
	case errors.Is(err, errNodeUnknown):
		if !w.node {
			w.delay = 0
		}
		w.node, w.delay = true, backoff.Next(nodePollMin, nodePollMax, w.delay)
		w.at = now.Add(w.delay)
	case err != nil:
		if w.node {
			w.delay = 0
		}
		w.node, w.delay = false, backoff.Next(retryMin, retryMax, w.delay)
		w.at = now.Add(w.delay)
		r.order = append(r.order, uid)
		return w.delay
	case w.static == tried.static && w.mirror == tried.mirror:
		delete(r.wanted, uid)
		return 0
	default:
		w.node, w.at, w.delay = false, time.Time{}, 0
	}
	r.order = append(r.order, uid)
	return 0
}

// reconcile does what one mirror pod needs. Its errors go to the log: they do not
// affect the static pod (MC4).
func (r *Reconciler) reconcile(ctx context.Context, w *wish) error {
	node := r.options.Node()
	s := decide(w.static, w.mirror, node)
	if s.delete {
		if _, err := r.remove(ctx, w.mirror.Namespace, w.mirror.Name, w.mirror.UID); err != nil {
			return err
		}
	}
	if s.wait {
		return errNodeUnknown
	}
	if !s.create {
		return nil
	}
	return r.create(ctx, w.static, node)
}

// create makes a mirror pod; an existing one with the same hash will do (MC1).
func (r *Reconciler) create(ctx context.Context, static *v1.Pod, node *v1.Node) error {
	pod, err := Of(static, node)
	if err != nil {
		return err
	}
	return r.call(ctx, func(ctx context.Context) error {
		err := r.options.Client.Create(ctx, pod)
		if !errors.Is(err, ErrExists) {
			return err
		}
		there, err := r.options.Client.Get(ctx, static.Namespace, static.Name)
		switch {
		case err != nil:
			return err
		case there.Annotations[podinfo.AnnotationMirror] == podinfo.ConfigHash(static) && there.DeletionTimestamp == nil:
			return nil
		case there.Annotations[podinfo.AnnotationMirror] == "":
			return fmt.Errorf("%w, and is no mirror pod", ErrExists)
		}
		// It has earlier content: it goes now, and the next try creates the new one.
		err = r.options.Client.Delete(ctx, there.Namespace, there.Name, there.UID)
		return errors.Join(errStale, err)
	})
}

var errStale = errors.New("a mirror pod of an earlier content was in the way")

// Delete removes the mirror pod of a full name; if uid is not empty, only the one with
// that UID (MC2). It reports whether it did. A missing pod or one with another UID is
// fine; other errors of the API are logged. The reconciler also calls it for orphaned
// mirror pods (MC7). Without a client it does nothing (MC3).
func (r *Reconciler) Delete(ctx context.Context, namespace, name string, uid types.UID) bool {
	if r.options.Client == nil {
		return false
	}
	deleted, err := r.remove(ctx, namespace, name, uid)
	if err != nil {
		r.options.Logger.Error(err, "Mirror pod is not deleted", "namespace", namespace, "name", name, "uid", uid)
	}
	return deleted
}

// remove is Delete, but returns the error.
func (r *Reconciler) remove(ctx context.Context, namespace, name string, uid types.UID) (bool, error) {
	err := r.call(ctx, func(ctx context.Context) error { return r.options.Client.Delete(ctx, namespace, name, uid) })
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrPrecondition) {
		return false, nil
	}
	return err == nil, err
}

// call makes one call of the client at a time, with a time limit.
func (r *Reconciler) call(ctx context.Context, f func(context.Context) error) error {
	select {
	case r.calls <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-r.calls }()
	ctx, cancel := timing.WithTimeout(ctx, r.options.Clock, callTimeout)
	defer cancel()
	return f(ctx)
}
