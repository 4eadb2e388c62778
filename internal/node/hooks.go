package node

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/syncloop/nodehooks"
)

// The schedule of spec/syncloop.md 16.
const (
	registerRetryMin   = 100 * time.Millisecond
	registerRetryMax   = 7 * time.Second
	nodeStatusPeriod   = 10 * time.Second
	nodeStatusJitter   = 0.04
	nodeStatusAnyway   = 5 * time.Minute
	nodeStatusAttempts = 5
	firstStatusLimit   = 120 * time.Second
)

// guard calls a hook and waits that long for it, or as long as ctx lasts; a panic becomes an error
// (spec/syncloop.md 16). A hook that has not returned is not called again until it does (IN6).
func (h *Hooks) guard(ctx context.Context, name string, wait time.Duration, hook func(ctx context.Context) error) error {
	call := foreign.Call{Kind: problem.Function, Name: "NodeHooks." + name, Patience: problem.HookLimit}
	_, err := foreign.Ask(ctx, h.options.Calls, call, foreign.Limits{Wait: wait},
		func(ctx context.Context) (struct{}, error) { return struct{}{}, hook(ctx) })
	if err != nil {
		return fmt.Errorf("NodeHooks.%s: %w", name, err)
	}
	return nil
}

// NodeState says how the node is.
type NodeState interface {
	// Ready returns why the node is not ready for pods, nil if it is.
	Ready() error
	// Conditions continues the transition times of last.
	Conditions(last []v1.NodeCondition) []v1.NodeCondition
}

// HookOptions configures [NewHooks].
type HookOptions struct {
	Hooks nodehooks.Hooks
	// RuntimeWell is closed when the runtime is well for the first time.
	RuntimeWell <-chan struct{}
	State       NodeState
	Clock       clock.WithTicker
	Logger      logr.Logger
	// Calls lists hooks that do not return. Nil: they are not listed.
	Calls *foreign.Calls
}

// Hooks calls the hooks of an agent when they are due.
type Hooks struct {
	options HookOptions
	// changed has room for one value: the node's conditions have changed.
	changed chan struct{}
}

// NewHooks returns the caller of an agent's hooks.
func NewHooks(options HookOptions) *Hooks {
	if options.Calls == nil {
		options.Calls = foreign.New(options.Clock)
	}
	if options.Hooks.Rand == nil {
		options.Hooks.Rand = timing.Jitter()
	}
	return &Hooks{options: options, changed: make(chan struct{}, 1)}
}

// Changed asks for the node's status to be published soon. It does not block.
func (h *Hooks) Changed() {
	select {
	case h.changed <- struct{}{}:
	default: // a check is already pending
	}
}

// Initialise runs the first hook.
func (h *Hooks) Initialise(ctx context.Context) error {
	if hook := h.options.Hooks.Initialise; hook != nil {
		return h.guard(ctx, "Initialise", 0, hook)
	}
	return nil
}

// Run calls the other hooks until ctx ends.
func (h *Hooks) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	hooks := h.options.Hooks
	if hooks.RuntimeReady != nil {
		wg.Go(func() {
			if h.untilRuntimeWell(ctx) {
				h.failed(ctx, h.guard(ctx, "RuntimeReady", 0, hooks.RuntimeReady))
			}
		})
	}
	wg.Go(func() {
		if !h.register(ctx) {
			return
		}
		if hooks.RenewLease != nil {
			wg.Go(func() { h.renewLease(ctx) })
		}
		if hooks.PublishStatus != nil {
			h.publish(ctx)
		}
	})
	<-ctx.Done()
	return nil
}

// failed logs the error of a hook, if it is one.
func (h *Hooks) failed(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		h.options.Logger.Error(err, "A hook of the node failed")
	}
}

// untilRuntimeWell returns false if ctx ended.
func (h *Hooks) untilRuntimeWell(ctx context.Context) bool {
	select {
	case <-h.options.RuntimeWell:
		return true
	case <-ctx.Done():
		return false
	}
}

// register registers the node; it returns false if ctx ended first.
func (h *Hooks) register(ctx context.Context) bool {
	hook := h.options.Hooks.Register
	if hook == nil {
		return ctx.Err() == nil
	}
	for delay := registerRetryMin; ; delay = backoff.Next(registerRetryMin, registerRetryMax, delay) {
		err := h.guard(ctx, "Register", problem.HookLimit, hook)
		if err == nil {
			return true
		}
		h.failed(ctx, err)
		if timing.Sleep(ctx, h.options.Clock, delay) != nil {
			return false
		}
	}
}

// renewLease renews the lease until ctx ends.
func (h *Hooks) renewLease(ctx context.Context) {
	for {
		h.failed(ctx, h.guard(ctx, "RenewLease", problem.HookLimit, func(ctx context.Context) error {
			return h.options.Hooks.RenewLease(ctx, nodehooks.LeaseDuration)
		}))
		if timing.Sleep(ctx, h.options.Clock, nodehooks.LeasePeriod) != nil {
			return
		}
	}
}

// told is the status that was published last. A zero at means that it must be published again.
type told struct {
	conditions []v1.NodeCondition
	at         time.Time
}

// publish publishes the node's status until ctx ends: first as soon as the node is ready, then on
// schedule and whenever a condition changes. A node that is gone is registered again.
func (h *Hooks) publish(ctx context.Context) {
	if !h.untilReady(ctx) {
		return
	}
	var last told
	for changed := h.options.Hooks.Changed; ; {
		if errors.Is(h.publishDue(ctx, &last), nodehooks.ErrNodeGone) {
			if !h.register(ctx) {
				return
			}
			// The new node shows its status at once. If it is gone again, that is handled when the
			// next status is due, so that this is not a busy loop.
			_ = h.publishDue(ctx, &last)
		}
		timer := h.options.Clock.NewTimer(nodeStatusPeriod + h.jitter())
		select {
		case <-timer.C():
		case <-h.changed:
		case _, open := <-changed:
			if last.at = (time.Time{}); !open {
				changed = nil
			}
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// publishDue publishes the node's status if it differs from the last one, or the last one is old.
func (h *Hooks) publishDue(ctx context.Context, last *told) error {
	now := h.options.Clock.Now()
	conditions := h.options.State.Conditions(last.conditions)
	if !last.at.IsZero() && sameConditions(conditions, last.conditions) && now.Sub(last.at) < nodeStatusAnyway {
		return nil
	}
	err := h.publishOnce(ctx, conditions)
	switch {
	case err == nil:
		*last = told{conditions, now}
	case errors.Is(err, nodehooks.ErrNodeGone):
		last.at = time.Time{}
	}
	h.failed(ctx, err)
	return err
}

// jitter returns up to 4 % of the pause, or nothing if Rand does not return a number in [0, 1).
func (h *Hooks) jitter() (pause time.Duration) {
	_ = h.options.Calls.Contain(foreign.Call{Kind: problem.Function, Name: "NodeHooks.Rand", Patience: problem.FunctionLimit}, func() error {
		if r := h.options.Hooks.Rand(); r > 0 && r < 1 {
			pause = time.Duration(r * nodeStatusJitter * float64(nodeStatusPeriod))
		}
		return nil
	})
	return pause
}

// untilReady waits until the node is ready, but not forever; it returns false if ctx ended.
func (h *Hooks) untilReady(ctx context.Context) bool {
	limit := h.options.Clock.NewTimer(firstStatusLimit)
	defer limit.Stop()
	for h.options.State.Ready() != nil {
		select {
		case <-h.changed:
		case <-limit.C():
			return true
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// publishOnce tries to publish one status.
func (h *Hooks) publishOnce(ctx context.Context, conditions []v1.NodeCondition) (err error) {
	for attempt := range nodeStatusAttempts {
		err = h.guard(ctx, "PublishStatus", problem.HookLimit, func(ctx context.Context) error {
			return h.options.Hooks.PublishStatus(ctx, nodehooks.Status{Conditions: slices.Clone(conditions), Attempt: attempt})
		})
		if err == nil || ctx.Err() != nil || errors.Is(err, nodehooks.ErrNodeGone) {
			return err
		}
	}
	return err
}

// sameConditions compares everything but heartbeats.
func sameConditions(a, b []v1.NodeCondition) bool {
	return slices.EqualFunc(a, b, func(x, y v1.NodeCondition) bool {
		x.LastHeartbeatTime, y.LastHeartbeatTime = metav1.Time{}, metav1.Time{}
		return reflect.DeepEqual(x, y)
	})
}
