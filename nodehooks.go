package podwright

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/backoff"
)

// NodeHooks are what an agent does for its node as a whole (spec/syncloop.md 16). Each
// is optional; the zero value does nothing. The engine calls them on its own
// goroutines with a context that ends with Run, and they should return soon after it.
// A hook that panics has failed with an error; neither stops the engine, except for
// Initialise.
type NodeHooks struct {
	// Initialise runs once, before anything else of Run. Its error ends Run.
	Initialise func(ctx context.Context) error
	// RuntimeReady runs once, when the runtime is well for the first time: the place
	// to start what needs one. An error is logged.
	RuntimeReady func(ctx context.Context) error
	// Register makes the node known. It is repeated after 100 ms, doubling up to 7 s,
	// until it returns nil; never concurrently, and not again after that.
	Register func(ctx context.Context) error
	// PublishStatus tells others how the node is, once it is registered: as soon as it
	// is Ready, and then, looking every 10 s (up to 4 % later), if anything but the
	// heartbeat changed, and every 5 min anyway. A failed call is repeated at once, up to
	// 5 attempts in all. See [NodeStatus] for what attempts mean.
	PublishStatus func(ctx context.Context, s NodeStatus) error
	// RenewLease shows others that the node lives, once it is registered: at once and
	// then every 10 s, for a lease of the given duration (40 s).
	RenewLease func(ctx context.Context, duration time.Duration) error
}

// NodeStatus is how the node is.
type NodeStatus struct {
	// Conditions are MemoryPressure, DiskPressure and PIDPressure, if [Config.Eviction]
	// watches the node, and last Ready. LastTransitionTime is filled in.
	Conditions []v1.NodeCondition
	// Attempt counts the calls for one status, from 0. On the first a client may read
	// the node from a cache; after the second has failed it should make new
	// connections.
	Attempt int
}

// The schedule of section 16.
const (
	registerRetryMin   = 100 * time.Millisecond
	registerRetryMax   = 7 * time.Second
	nodeStatusPeriod   = 10 * time.Second
	nodeStatusJitter   = 0.04
	nodeStatusAnyway   = 5 * time.Minute
	nodeStatusAttempts = 5
	fastStatusPeriod   = 100 * time.Millisecond
	fastStatusLimit    = 120 * time.Second
	leaseDuration      = 40 * time.Second
	leasePeriod        = leaseDuration / 4
)

// guard calls a hook; a panic is an error (section 16, last line).
func guard(name string, hook func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: panic: %v\n%s", name, p, debug.Stack())
		}
	}()
	if err := hook(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// initialise runs the first hook.
func (e *Engine) initialise(ctx context.Context) error {
	if hook := e.config.NodeHooks.Initialise; hook != nil {
		return guard("NodeHooks.Initialise", func() error { return hook(ctx) })
	}
	return nil
}

// runNodeHooks calls the others until ctx ends.
func (e *Engine) runNodeHooks(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	hooks := e.config.NodeHooks
	if hooks.RuntimeReady != nil {
		wg.Go(func() {
			if e.untilRuntimeReady(ctx) {
				e.hookFailed(ctx, guard("NodeHooks.RuntimeReady", func() error { return hooks.RuntimeReady(ctx) }))
			}
		})
	}
	wg.Go(func() {
		if !e.register(ctx) {
			return
		}
		if hooks.RenewLease != nil {
			wg.Go(func() { e.renewLease(ctx) })
		}
		if hooks.PublishStatus != nil {
			e.publishNode(ctx)
		}
	})
	<-ctx.Done()
	return nil
}

// hookFailed logs the error of a hook, if it is one.
func (e *Engine) hookFailed(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		e.config.Observe.Logger.Error(err, "A hook of the node failed")
	}
}

// pause returns false if ctx ended.
func (e *Engine) pause(ctx context.Context, d time.Duration) bool {
	timer := e.config.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}

// untilRuntimeReady waits until the runtime has been well once.
func (e *Engine) untilRuntimeReady(ctx context.Context) bool {
	select {
	case <-e.runtimeGood:
		return true
	case <-ctx.Done():
		return false
	}
}

// register registers the node; false if ctx ended before that.
func (e *Engine) register(ctx context.Context) bool {
	hook := e.config.NodeHooks.Register
	if hook == nil {
		return ctx.Err() == nil
	}
	for delay := registerRetryMin; ; delay = backoff.Next(registerRetryMin, registerRetryMax, delay) {
		err := guard("NodeHooks.Register", func() error { return hook(ctx) })
		if err == nil {
			return true
		}
		e.hookFailed(ctx, err)
		if !e.pause(ctx, delay) {
			return false
		}
	}
}

// renewLease renews the lease until ctx ends.
func (e *Engine) renewLease(ctx context.Context) {
	for {
		e.hookFailed(ctx, guard("NodeHooks.RenewLease", func() error {
			return e.config.NodeHooks.RenewLease(ctx, leaseDuration)
		}))
		if !e.pause(ctx, leasePeriod) {
			return
		}
	}
}

// publishNode publishes the node's status until ctx ends: fast until it is ready for
// the first time, then on schedule and when a condition of eviction changes.
func (e *Engine) publishNode(ctx context.Context) {
	for begin := e.config.Clock.Now(); e.nodeReady() != nil && e.config.Clock.Since(begin) < fastStatusLimit; {
		if !e.pause(ctx, fastStatusPeriod) {
			return
		}
	}
	var last []v1.NodeCondition
	var at time.Time
	for {
		now := e.config.Clock.Now()
		conditions := e.nodeConditions(last, now)
		if !sameConditions(conditions, last) || now.Sub(at) >= nodeStatusAnyway {
			if err := e.publishOnce(ctx, conditions); err != nil {
				e.hookFailed(ctx, err)
			} else {
				last, at = conditions, now
			}
		}
		timer := e.config.Clock.NewTimer(nodeStatusPeriod + time.Duration(rand.Float64()*nodeStatusJitter*float64(nodeStatusPeriod)))
		select {
		case <-timer.C():
		case <-e.nodeNews:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// publishOnce tries to publish one status.
func (e *Engine) publishOnce(ctx context.Context, conditions []v1.NodeCondition) (err error) {
	for attempt := range nodeStatusAttempts {
		err = guard("NodeHooks.PublishStatus", func() error {
			return e.config.NodeHooks.PublishStatus(ctx, NodeStatus{Conditions: slices.Clone(conditions), Attempt: attempt})
		})
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// nodeReady returns why the node is not ready for pods, nil if it is.
func (e *Engine) nodeReady() error {
	err := errors.Join(e.health.Runtime(), e.health.Network())
	if e.shuttingDown() {
		err = errors.Join(err, errShuttingDown)
	}
	return err
}

// NodeConditions returns how the node is: MemoryPressure, DiskPressure and PIDPressure,
// if [Config.Eviction] watches the node, and last Ready, which says whether the runtime
// and its network are usable. The list is the caller's; the times of Ready are those of
// the call.
func (e *Engine) NodeConditions() []v1.NodeCondition {
	return e.nodeConditions(nil, e.config.Clock.Now())
}

// nodeConditions returns them with transition times that go on from last.
func (e *Engine) nodeConditions(last []v1.NodeCondition, now time.Time) []v1.NodeCondition {
	var out []v1.NodeCondition
	if e.evictor != nil {
		out = e.evictor.Conditions()
	}
	at := metav1.NewTime(now)
	ready := v1.NodeCondition{
		Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", Message: "the node is ready for pods",
		LastHeartbeatTime: at, LastTransitionTime: at,
	}
	if err := e.nodeReady(); err != nil {
		ready.Status, ready.Reason, ready.Message = v1.ConditionFalse, "KubeletNotReady", err.Error()
	}
	for _, c := range last {
		if c.Type == ready.Type && c.Status == ready.Status {
			ready.LastTransitionTime = c.LastTransitionTime
		}
	}
	return append(out, ready)
}

// sameConditions compares all but heartbeats.
func sameConditions(a, b []v1.NodeCondition) bool {
	return slices.EqualFunc(a, b, func(x, y v1.NodeCondition) bool {
		x.LastHeartbeatTime, y.LastHeartbeatTime = metav1.Time{}, metav1.Time{}
		return reflect.DeepEqual(x, y)
	})
}

// nodeChanged has the node's status published soon.
func (e *Engine) nodeChanged() {
	select {
	case e.nodeNews <- struct{}{}:
	default: // somebody is about to look
	}
}
