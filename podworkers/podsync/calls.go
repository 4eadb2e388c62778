package podsync

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/runtime"
)

// startTimeout is how long a start that is under way may go on after its step was
// cancelled. Starts take a fraction of a second; a runtime that hangs must not keep
// an agent from ending.
const startTimeout = 3 * time.Second

// Calls is a runtime whose calls are made for pods. It stands between the parts that make
// the calls (package runtime/pods) and the runtime, and makes up for what runtimes do:
//
//   - One shows for a moment less than it has answered. Calls tells the cache what was done,
//     so that it reads again before anything is decided by an old list (spec/pleg.md D7), and
//     keeps a step from making an object again that is not listed yet.
//   - One kills what it is starting when the call is cut off. Calls lets the call of a start
//     come to its end although its step was cancelled: with policy Never an agent that is
//     updated at the wrong moment would fail a pod's only run.
//
// Only calls made with the context of a [Syncer]'s step count as made for a pod.
type Calls struct {
	runtime.RuntimeService
	o        CallOptions
	unlisted *unlisted
}

// CallOptions configures [NewCalls].
type CallOptions struct {
	// Report hears what was done: pleg's Report. Nil: nothing does.
	Report func(uid types.UID, id string, state runtime.State)
	// BeforeStart is called before a container of the pod is started; with an error it is
	// not started. Nil: every container is.
	BeforeStart func(ctx context.Context, uid types.UID) error
	Clock       clock.WithDelayedExecution // nil: the real clock
}

// NewCalls wraps a runtime.
func NewCalls(service runtime.RuntimeService, options CallOptions) *Calls {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.Report == nil {
		options.Report = func(types.UID, string, runtime.State) {}
	}
	return &Calls{RuntimeService: service, o: options, unlisted: newUnlisted(options.Clock)}
}

// made notes an object that no view may be without from now on, and reports its state.
func (c *Calls) made(ctx context.Context, err error, id string, state runtime.State) {
	if uid, ok := foreign.PodOf(ctx); ok && err == nil {
		c.unlisted.add(uid, id)
		c.o.Report(uid, id, state)
	}
}

// changed reports the state of an object after a call that succeeded.
func (c *Calls) changed(ctx context.Context, err error, id string, state runtime.State) {
	if uid, ok := foreign.PodOf(ctx); ok && err == nil {
		c.o.Report(uid, id, state)
	}
}

// removed notes that an object is gone.
func (c *Calls) removed(ctx context.Context, err error, id string) {
	if uid, ok := foreign.PodOf(ctx); ok && err == nil {
		c.unlisted.remove(uid, id)
	}
}

// RunPodSandbox makes and starts a sandbox.
func (c *Calls) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	longer, done := c.outlast(ctx)
	defer done()
	id, err := c.RuntimeService.RunPodSandbox(longer, config, handler)
	c.made(ctx, err, id, runtime.Running)
	return id, err
}

// CreateContainer makes a container.
func (c *Calls) CreateContainer(ctx context.Context, podSandboxID string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	longer, done := c.outlast(ctx)
	defer done()
	id, err := c.RuntimeService.CreateContainer(longer, podSandboxID, config, sandboxConfig)
	c.made(ctx, err, id, runtime.Created)
	return id, err
}

// StartContainer starts a container, after [CallOptions.BeforeStart].
func (c *Calls) StartContainer(ctx context.Context, containerID string) error {
	if uid, ok := foreign.PodOf(ctx); ok && c.o.BeforeStart != nil {
		if err := c.o.BeforeStart(ctx, uid); err != nil {
			return err
		}
	}
	longer, done := c.outlast(ctx)
	defer done()
	err := c.RuntimeService.StartContainer(longer, containerID)
	c.changed(ctx, err, containerID, runtime.Running)
	return err
}

// StopContainer stops a container.
func (c *Calls) StopContainer(ctx context.Context, containerID string, timeout int64) error {
	err := c.RuntimeService.StopContainer(ctx, containerID, timeout)
	c.changed(ctx, err, containerID, runtime.Exited)
	return err
}

// StopPodSandbox stops a sandbox.
func (c *Calls) StopPodSandbox(ctx context.Context, podSandboxID string) error {
	err := c.RuntimeService.StopPodSandbox(ctx, podSandboxID)
	c.changed(ctx, err, podSandboxID, runtime.Exited)
	return err
}

// RemoveContainer removes a container.
func (c *Calls) RemoveContainer(ctx context.Context, containerID string) error {
	err := c.RuntimeService.RemoveContainer(ctx, containerID)
	c.removed(ctx, err, containerID)
	return err
}

// RemovePodSandbox removes a sandbox.
func (c *Calls) RemovePodSandbox(ctx context.Context, podSandboxID string) error {
	err := c.RuntimeService.RemovePodSandbox(ctx, podSandboxID)
	c.removed(ctx, err, podSandboxID)
	return err
}

// outlast returns a context that ends startTimeout after ctx; one that has ended
// already is returned as it is. done must be called.
func (c *Calls) outlast(ctx context.Context) (_ context.Context, done func()) {
	if ctx.Err() != nil {
		return ctx, func() {}
	}
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	timers := make(chan clock.Timer, 1)
	stop := context.AfterFunc(ctx, func() {
		timers <- c.o.Clock.AfterFunc(startTimeout, func() { cancel(context.Cause(ctx)) })
	})
	return longer, func() {
		if !stop() {
			(<-timers).Stop()
		}
		cancel(nil)
	}
}

// awaitListed returns an error that names an object made for the pod that the view does
// not show yet, nil if there is none.
func (c *Calls) awaitListed(uid types.UID, view *runtime.PodStatus) error {
	if c == nil {
		return nil
	}
	return c.unlisted.check(uid, view)
}

// forget drops what is known of a pod that is gone.
func (c *Calls) forget(uid types.UID) {
	if c != nil {
		c.unlisted.forget(uid)
	}
}
